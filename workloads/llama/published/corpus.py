"""MLCommons' preprocessed C4: which files a training reads, and their survey.

mlcommons/training, small_llm_pretraining/nemo, README.md, "Preprocessed data download", and
pretrain_llama31.py, get_data: the seventh of eight parts of C4 en 3.0.1 (Raffel et al. 2020,
arXiv:1910.10683), shards 768 to 895 of 1,024, and the first 91,205 documents of its validation
split, of which the first 1,024 sequences are evaluated, in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.files.layout import compute_file_sha256
from workloads.llama.data import TRAIN_SPLIT, VALIDATION_SPLIT
from workloads.llama.published.megatron import (
    INDEX_SUFFIX,
    TOKENS_SUFFIX,
    FirstSequences,
    SequenceSource,
    ShuffledSequences,
    check_index,
    format_index_path,
    format_tokens_path,
    hash_valid_tokens,
    open_indexed_tokens,
)

CORPUS_FILES: Final = {
    TRAIN_SPLIT: "c4-train.en_6_text_document",
    VALIDATION_SPLIT: "c4-validation-91205-samples.en_text_document",
}
"""Split -> name of its files without their suffixes, as MLCommons distributes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSurvey:
    """What the survey of one split's files found."""

    sequences: int
    """Of the length that was asked for, in one pass."""
    documents: int
    sha256: dict[str, str]
    """File -> its hash."""


def list_corpus_files() -> Sequence[str]:
    """Return the names of all files."""
    return [
        name + suffix for name in CORPUS_FILES.values() for suffix in (INDEX_SUFFIX, TOKENS_SUFFIX)
    ]


def survey_split(root: Path, split: str, length: int, vocabulary: int) -> SplitSurvey:
    """Check, count and hash one split; RequestError if a file is missing or damaged, or if a token
    is outside the vocabulary.
    """
    corpus = open_indexed_tokens(root / CORPUS_FILES[split])
    check_index(corpus)
    index, tokens = format_index_path(corpus.prefix), format_tokens_path(corpus.prefix)
    return SplitSurvey(
        sequences=corpus.count_sequences(length),
        documents=corpus.documents,
        sha256={
            tokens.name: hash_valid_tokens(corpus, vocabulary),
            index.name: compute_file_sha256(index),
        },
    )


def open_training_sequences(root: Path, length: int, seed: int) -> SequenceSource:
    """Open the training split in the order of a seed."""
    corpus = open_indexed_tokens(root / CORPUS_FILES[TRAIN_SPLIT])
    return ShuffledSequences(corpus, length, seed)


def open_validation_sequences(root: Path, length: int, count: int) -> SequenceSource:
    """Open the first sequences of the validation split."""
    corpus = open_indexed_tokens(root / CORPUS_FILES[VALIDATION_SPLIT])
    return FirstSequences(corpus, length, count)
