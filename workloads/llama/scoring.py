"""ROUGE and the length of generated summaries; imports no framework, since the judge runs it.

An answer is its token ids as little-endian int32, its end token included. The truth is
`references.txt`, one summary per line in sample order, or, for a user's articles, `summaries.json`
and the tokenizer that turns ids into text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from suite.errors import MissingError, RequestError
from suite.files.tokenizer_files import TOKENIZER_FILE
from suite.workload import Scores
from workloads.common.text.references import read_references, write_references
from workloads.common.text.token_answers import unpack_token_ids
from workloads.llama.published.summaries import SUMMARIES_FILE, read_summaries, write_summaries
from workloads.llama.published.tokenizer import PublishedTokenizer, read_published_tokenizer
from workloads.llama.vocabulary import END_ID, decode_tokens, list_tokens

if TYPE_CHECKING:
    from workloads.common.score_samplers import SumSampler

ROUGE_METRICS: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")
"""Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries"; names of rouge-score."""
LENGTH_METRIC: Final = "gen_len"
"""Characters of all generated texts; mlcommons/inference, language/llama3.1-8b, evaluation.py."""
UNENDED_METRIC: Final = "unended"
"""Answers without an end token: generation was cut at its limit."""
MAX_REMEMBERED_SCORES: Final = 4
"""Accuracy runs whose ROUGE is kept: one for each scenario."""
SENTENCES_INSTALL_COMMAND: Final = "python -m nltk.downloader punkt_tab"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTruth:
    """What answers are compared with."""

    references: Sequence[str]
    """Summaries, by sample number; a line is a sentence."""
    decode: Callable[[Sequence[int]], str]
    """Turns the ids of an answer into text."""
    ends: Iterable[int]
    """Tokens that end an answer."""
    split: Callable[[str], str] = str
    """Puts each sentence of a generated text on a line of its own."""


def score_answers(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Compute ROUGE-1, -2, -L and -Lsum, 0-1 each, the generated length in characters, and the
    number of answers that were cut; a missing or malformed answer counts as an empty text.

    MissingError if rouge-score, or what splits texts into sentences, is not installed; ValueError
    or OSError without references.
    """
    target = read_summary_truth(truth)
    texts, unended = decode_summaries(answers, target)
    return {
        **compute_rouge(texts, target.references),
        LENGTH_METRIC: float(sum(map(len, texts))),
        UNENDED_METRIC: float(sum(unended)),
    }


def sample_llama_scores(answers: Mapping[int, bytes], truth: Path) -> "SumSampler":
    """Return ROUGE over any choice of articles."""
    from workloads.common.score_samplers import build_mean_sampler

    target = read_summary_truth(truth)
    texts, _ = decode_summaries(answers, target)
    return build_mean_sampler(
        measure_each_rouge(load_rouge_scorer(), tuple(texts), tuple(target.references))
    )


def decode_summaries(
    answers: Mapping[int, bytes], target: SummaryTruth
) -> tuple[Sequence[str], Sequence[bool]]:
    """Return the text of each answer, and whether it was cut."""
    samples = range(len(target.references))
    generated = [unpack_token_ids(answers.get(sample, b"")) for sample in samples]
    ends = frozenset(target.ends)
    texts = [target.split(target.decode(ids)) for ids in generated]
    return texts, [ends.isdisjoint(ids) for ids in generated]


def read_summary_truth(truth: Path) -> SummaryTruth:
    """Read the truth, of either kind; ValueError if it is malformed."""
    if not (truth / SUMMARIES_FILE).is_file():
        return SummaryTruth(
            references=read_references(truth), decode=decode_news_answer, ends=(END_ID,)
        )
    try:
        tokenizer = read_published_tokenizer(truth)
    except RequestError as error:
        raise ValueError(str(error)) from error
    return SummaryTruth(
        references=[split_into_sentences(text) for text in read_summaries(truth)],
        decode=tokenizer.decode_answer,
        ends=tokenizer.ends,
        split=split_into_sentences,
    )


def write_news_truth(truth: Path, summaries: Sequence[str]) -> None:
    """Write the truth of the generated news."""
    write_references(truth, summaries)


def write_published_truth(
    truth: Path, summaries: Sequence[str], tokenizer: PublishedTokenizer
) -> None:
    """Write the truth of a user's articles."""
    write_summaries(truth, summaries)
    (truth / TOKENIZER_FILE).write_bytes(tokenizer.content)


def decode_news_answer(ids: Sequence[int]) -> str:
    """Return the text before the end token; "" if a token is in no vocabulary."""
    known = range(len(list_tokens()))
    if any(number not in known for number in ids):
        return ""
    return decode_tokens(ids[: ids.index(END_ID)] if END_ID in ids else ids)


def split_into_sentences(text: str) -> str:
    """Put each sentence on a line of its own, as evaluation.py of mlcommons/inference,
    language/llama3.1-8b, does for ROUGE-Lsum and for the length; MissingError without NLTK's
    model of sentences.
    """
    sent_tokenize = resolve_name("nltk.tokenize:sent_tokenize")
    try:
        return "\n".join(sent_tokenize(text.strip()))
    except LookupError as error:
        raise MissingError(
            "llama: splitting texts into sentences needs NLTK's model punkt_tab:"
            f" {SENTENCES_INSTALL_COMMAND}"
        ) from error


def compute_rouge(texts: Sequence[str], references: Sequence[str]) -> Scores:
    """Return the mean F-measures of texts against one reference each, 0-1; words are stemmed, and a
    sentence of -Lsum is a line. MissingError without rouge-score.
    """
    measured = measure_each_rouge(load_rouge_scorer(), tuple(texts), tuple(references))
    return {metric: sum(each) / len(each) for metric, each in measured.items()}


@lru_cache(maxsize=MAX_REMEMBERED_SCORES)
def measure_each_rouge(
    scorer_class: Callable[..., Any], texts: tuple[str, ...], references: tuple[str, ...]
) -> Mapping[str, Sequence[float]]:
    """Score each text as the reference uses rouge-score. The last results are kept: the judge,
    scores and a report ask for those of one run several times, and they take longer than all else
    in it.
    """
    scorer = scorer_class(list(ROUGE_METRICS), use_stemmer=True)
    scores = [
        scorer.score(reference, text) for text, reference in zip(texts, references, strict=True)
    ]
    return {metric: [each[metric].fmeasure for each in scores] for metric in ROUGE_METRICS}


def load_rouge_scorer() -> Callable[..., Any]:
    """Return the class of rouge-score's scorer; MissingError without the package.

    It is imported on use, since it imports NumPy and NLTK.
    """
    try:
        scorer_class: Callable[..., Any] = resolve_name("rouge_score.rouge_scorer:RougeScorer")
    except ImportError as error:
        raise MissingError(
            f"llama: ROUGE needs the package rouge-score ({error}): pip install rouge-score"
        ) from error
    return scorer_class
