"""The documents that are served: prompts as token ids, with the summaries that answers are compared
with; imports no framework.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.workload import Run
from workloads.common.run_request import resolve_data_survey
from workloads.common.text.encoded import resolve_encoded_folder
from workloads.llama.news import PROMPT_END
from workloads.llama.published.articles import extract_article, open_prompts
from workloads.llama.published.summaries import read_summaries
from workloads.llama.published.tokenizer import PublishedTokenizer, read_published_tokenizer
from workloads.llama.scoring import write_news_truth, write_published_truth
from workloads.llama.served_news import generate_serving_documents
from workloads.llama.survey import LlamaDataSet
from workloads.llama.vocabulary import compute_tokenizer_sha256, decode_tokens, encode_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSet:
    """Prompts and reference summaries, by sample number."""

    prompts: Sequence[Sequence[int]]
    """Token ids of each prompt."""
    summaries: Sequence[str]
    tokenizer: PublishedTokenizer | None = None
    """Of the user's articles; None: the generated news'."""

    @property
    def tokenizer_sha256(self) -> str:
        """Return the hash of the `tokenizer.json` that the prompts are encoded with."""
        if self.tokenizer is None:
            return compute_tokenizer_sha256()
        return hashlib.sha256(self.tokenizer.content).hexdigest()

    def decode_article(self, sample: int) -> str:
        """Return the article of a prompt."""
        if self.tokenizer is None:
            return decode_tokens(self.prompts[sample]).removesuffix(PROMPT_END)
        return extract_article(self.tokenizer.decode_ids(self.prompts[sample]))

    def write_truth(self, folder: Path) -> None:
        """Write what answers are scored with."""
        if self.tokenizer is None:
            write_news_truth(folder, self.summaries)
        else:
            write_published_truth(folder, self.summaries, self.tokenizer)


def load_serving_set(run: Run) -> ServingSet:
    """Load the serving set of a run: the generated news, or the user's articles; RequestError if
    these cannot be served.
    """
    if run.data is not None:
        return open_articles(run, run.data)
    documents = generate_serving_documents()
    return ServingSet(
        prompts=[encode_prompt(document) for document in documents],
        summaries=[document.summary for document in documents],
    )


def open_articles(run: Run, data: Path) -> ServingSet:
    """Open the articles that the survey of the user's folder encoded."""
    found = resolve_data_survey(run, LlamaDataSet)
    folder = resolve_encoded_folder(run, found)
    return ServingSet(
        prompts=open_prompts(folder),
        summaries=read_summaries(folder),
        tokenizer=read_published_tokenizer(data),
    )
