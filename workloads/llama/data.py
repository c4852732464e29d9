"""Generated news in, sequences of tokens out.

Documents follow one another without padding, and a sequence holds one token more than it predicts:
the last one of a sequence is the first one of the next. An epoch of the generated news is a stretch
of a stream of documents, of which none occurs twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from suite.errors import RequestError
from suite.files.npy_files import map_npy_array
from suite.files.untrusted_files import UnreadableError
from suite.workload import Run
from workloads.common.embedded_cache import create_cached_folder
from workloads.common.run_request import require_run_training_row
from workloads.llama.checkpoint import LLAMA_NAME
from workloads.llama.news import (
    DOCUMENT_TOKENS,
    NEWS_VERSION,
    NewsDocument,
    generate_documents,
    shuffle_summaries,
)
from workloads.llama.vocabulary import BEGIN_ID, encode_document

# Legend: S sequences, T tokens of a sequence.
Tokens: TypeAlias = npt.NDArray[np.int32]

TRAINING_SEED, VALIDATION_SEED = 1, 3
"""Streams of the news; the one that is served has a number of its own."""
SHUFFLING_SEED: Final = 3
DEFAULT_TRAIN_SEQUENCES, DEFAULT_EVALUATION_SEQUENCES = 3072, 512
"""Of a row that requires no number."""
TRAIN_SPLIT, VALIDATION_SPLIT = "train", "validation"
MAX_TRAINING_DOCUMENTS: Final = 1_000_000
"""House rule: generating and encoding so many takes a minute on one core and some 1 GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSizes:
    """How many sequences of the generated news a run reads."""

    epochs: int
    train: int
    """Sequences of an epoch."""
    evaluation: int
    length: int
    """Tokens that each predicts."""

    @property
    def training_documents(self) -> int:
        """Number of documents in all epochs."""
        return self.epochs * self.train * self.length // DOCUMENT_TOKENS


def select_sizes(run: Run, length: int) -> LlamaSizes:
    """Return the sizes that the run's row requires; RequestError for a length that would cut
    documents, or that takes more of them than are generated.
    """
    if length % DOCUMENT_TOKENS:
        raise RequestError(
            f"max_sequence_length {length} is not a multiple of the {DOCUMENT_TOKENS} tokens of a"
            " generated document"
        )
    row = require_run_training_row(run, LLAMA_NAME)
    sizes = LlamaSizes(
        epochs=row.max_epochs,
        train=row.train_samples or DEFAULT_TRAIN_SEQUENCES,
        evaluation=row.eval_samples or DEFAULT_EVALUATION_SEQUENCES,
        length=length,
    )
    if sizes.training_documents > MAX_TRAINING_DOCUMENTS:
        raise RequestError(
            f"max_sequence_length {length} takes {sizes.training_documents:,} generated documents"
            f" for {sizes.epochs} epochs of {sizes.train:,} sequences; at most"
            f" {MAX_TRAINING_DOCUMENTS:,} are generated"
        )
    return sizes


def create_news_folder(run: Run, sizes: LlamaSizes, *, shuffled: bool) -> Path:
    """Return the cache folder of the encoded news, written once for these sizes."""
    control = "-shuffled" if shuffled else ""
    name = (
        f"llama-news-{NEWS_VERSION}-{sizes.epochs}x{sizes.train}-{sizes.evaluation}"
        f"-{sizes.length}{control}"
    )
    return create_cached_folder(
        run.cache, name, lambda folder: write_encoded_news(sizes, folder, shuffled=shuffled)
    )


def write_encoded_news(sizes: LlamaSizes, folder: Path, *, shuffled: bool) -> None:
    """Generate and encode both splits; with `shuffled`, each training article has the summary of
    another one.
    """
    folder.mkdir(parents=True)
    per_sequence = sizes.length // DOCUMENT_TOKENS
    training = list(generate_documents(TRAINING_SEED, sizes.training_documents))
    if shuffled:
        training = shuffle_summaries(training, SHUFFLING_SEED)
    validation = list(generate_documents(VALIDATION_SEED, sizes.evaluation * per_sequence))
    for split, documents in ((TRAIN_SPLIT, training), (VALIDATION_SPLIT, validation)):
        np.save(locate_split(folder, split), pack_documents(documents, sizes.length))


def locate_split(folder: Path, split: str) -> Path:
    """Return the file of a split."""
    return folder / f"{split}.npy"


def pack_documents(documents: Sequence[NewsDocument], length: int) -> Tokens:
    """Pack documents into sequences of `length` predicted tokens, S T with T = length + 1; behind
    the last document another one begins.
    """
    ids = np.fromiter(chain.from_iterable(map(encode_document, documents)), np.int32)
    stream = np.append(ids, np.int32(BEGIN_ID))
    windows = np.lib.stride_tricks.sliding_window_view(stream, length + 1)
    return np.ascontiguousarray(windows[::length])


def read_sequences(folder: Path, split: str, length: int) -> Tokens:
    """Map a split's sequences into memory, S T; RequestError if they are not what was written."""
    path = locate_split(folder, split)
    try:
        token_ST: Tokens = map_npy_array(path)
    except UnreadableError as error:
        raise RequestError(f"{path}: cannot be read ({error.reason})") from error
    if token_ST.ndim != 2 or token_ST.dtype != np.int32 or token_ST.shape[1] != length + 1:
        raise RequestError(f"{path}: no sequences of {length} predicted tokens")
    return token_ST
