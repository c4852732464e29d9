"""The served articles of CNN/DailyMail, as MLCommons preprocessed them.

mlcommons/inference, language/llama3.1-8b, download_cnndm.py: `cnn_eval.json` is a list of records,
one for each article of CNN/DailyMail 3.0.0's validation split (See et al. 2017, arXiv:1704.04368;
13,368 articles), with the article (`input`), its summary (`output`), and the token ids of the
prompt (`tok_input`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, overload

import msgspec
import numpy as np

from suite.errors import RequestError
from suite.files.layout import compute_file_sha256
from suite.files.tokenizer_files import (
    TOKENIZER_FILE,
    convert_tokenizer_errors,
    parse_tokenizer_file,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.process.installation import RUN_EXTRA
from workloads.common.embedded_cache import create_cached_folder
from workloads.common.text.encoded import EncodedSentences
from workloads.llama.published.summaries import write_summaries
from workloads.llama.published.tokenizer import PublishedTokenizer

ARTICLES_FILE: Final = "cnn_eval.json"
ARTICLES_VERSION: Final = 1
"""Part of the cache folders' names: a changed preparation needs another folder."""
ARTICLE_PROMPT: Final = (
    "In very brief sentences, summarize the following news article. Only return the summary.\n"
    "Article: {input}\n"
    "Summary: "
)
"""mlcommons/inference, language/llama3.1-8b, download_cnndm.py: instruction_template."""
CHAT_TEMPLATE: Final = "{{ bos_token }}" + ARTICLE_PROMPT.replace("\n", "{{ '\\n' }}").replace(
    "{input}", "{% for message in messages %}{{ message['content'] }}{% endfor %}"
)
"""Jinja template: a message holds an article, and the answer is its summary."""
MAX_ARTICLES_BYTES: Final = 1 << 30
"""Size limit of `cnn_eval.json`: 12 million token ids, one a line, and 60 MB of text."""
ENCODED_PROMPTS: Final = "prompts"
COMPARED_PROMPTS: Final = 64
"""Prompts that are encoded again, to see that tokenizer and articles belong together."""


class ArticleRecord(msgspec.Struct, frozen=True):
    """What is read of a record."""

    input: str
    output: str
    tok_input: list[int]


@dataclass(frozen=True, slots=True)
class MappedPrompts(Sequence[Sequence[int]]):
    """Token ids of each prompt, from arrays that are mapped into memory."""

    encoded: EncodedSentences

    def __len__(self) -> int:
        return len(self.encoded)

    @overload
    def __getitem__(self, sample: int) -> Sequence[int]: ...

    @overload
    def __getitem__(self, sample: slice) -> Sequence[Sequence[int]]: ...

    def __getitem__(self, sample: int | slice) -> Sequence[int] | Sequence[Sequence[int]]:
        """Return the ids of a prompt, or of several."""
        if isinstance(sample, slice):
            return [self[number] for number in range(*sample.indices(len(self)))]
        if not 0 <= sample < len(self):
            raise IndexError(sample)
        ids: list[int] = self.encoded[sample].tolist()
        return ids


def read_articles(path: Path, tokenizer: PublishedTokenizer) -> Sequence[ArticleRecord]:
    """Read and check all records; RequestError if the file is missing or malformed, if there are
    none, or for a prompt that is empty, has a token outside the vocabulary, or is not what the
    tokenizer makes of its article.
    """
    decoder = msgspec.json.Decoder(list[ArticleRecord])
    try:
        records = read_untrusted_file(path, decoder.decode, MAX_ARTICLES_BYTES)
    except UnreadableError as error:
        raise RequestError(f"{path}: no readable list of articles ({error.reason})") from error
    if not records:
        raise RequestError(f"{path}: it has no articles")
    largest = tokenizer.vocabulary - 1
    for sample, record in enumerate(records):
        prompt = record.tok_input
        if not prompt:
            raise RequestError(f"{path}: record {sample} has an empty prompt (tok_input)")
        if min(prompt) < 0 or max(prompt) > largest:
            raise RequestError(
                f"{path}: record {sample} has a token outside 0 to {largest}, the tokenizer's"
            )
    check_encoded_prompts(path, records, tokenizer)
    return records


def check_encoded_prompts(
    path: Path, records: Sequence[ArticleRecord], tokenizer: PublishedTokenizer
) -> None:
    """RequestError if a prompt is not what the tokenizer makes of its article, or if the tokenizer
    encodes nothing; MissingError without the library that encodes text.
    """
    source = f"llama: {path.with_name(TOKENIZER_FILE)}"
    encoder = parse_tokenizer_file(tokenizer.content, source, RUN_EXTRA)
    for sample, record in enumerate(islice(records, COMPARED_PROMPTS)):
        text = ARTICLE_PROMPT.format(input=record.input)
        with convert_tokenizer_errors(source):
            ids = encoder.encode(text).ids
        if ids != record.tok_input:
            raise RequestError(
                f"{path}: the prompt of record {sample} (tok_input) is not what tokenizer.json"
                " makes of its article; the two do not belong together"
            )


def extract_article(prompt: str) -> str:
    """Return the article of a prompt; ValueError if it is not one of the template's."""
    before, after = ARTICLE_PROMPT.split("{input}")
    if not prompt.startswith(before) or not prompt.endswith(after):
        raise ValueError("a prompt that is not the template with an article")
    return prompt[len(before) : len(prompt) - len(after)]


def create_articles_folder(cache: Path, path: Path, tokenizer: PublishedTokenizer) -> Path:
    """Return the cache folder of prompts and summaries, written once per file; RequestError for a
    file that cannot be served.
    """
    records = read_articles(path, tokenizer)
    name = f"llama-articles-{ARTICLES_VERSION}-{compute_file_sha256(path)[:16]}"
    return create_cached_folder(cache, name, lambda folder: write_articles(records, folder))


def write_articles(records: Sequence[ArticleRecord], folder: Path) -> None:
    """Write prompts and summaries in the form that is mapped and read when they are served."""
    folder.mkdir(parents=True)
    prompts = [np.array(record.tok_input, np.int32) for record in records]
    EncodedSentences.merge_sentences(prompts).save(folder / ENCODED_PROMPTS)
    write_summaries(folder, [record.output for record in records])


def open_prompts(folder: Path) -> MappedPrompts:
    """Map the prompts of a cache folder into memory."""
    return MappedPrompts(EncodedSentences.load(folder / ENCODED_PROMPTS))
