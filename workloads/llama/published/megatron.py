"""Tokens in Megatron's indexed files, and the sequences that a training reads from them.

A corpus is two files. NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py: `.bin` holds
the tokens of all texts, one behind another; `.idx` holds `MMIDIDX` and two zeros, then, all
little-endian, the version (uint64, 1), a code for the tokens' type (uint8: 4 is int32, 8 is
uint16), the number of texts and the number of document marks (uint64), the tokens of each text
(int32), its first byte in `.bin` (int64), and the marks: the first text of each document, then the
number of texts (int64).

The order of sequences is that of megatron/core/datasets/gpt_dataset.py in effect: the texts are
shuffled and put one behind another, the stream is cut, and the sequences are shuffled. Each pass
over the corpus has an order of its own, a function of the seed and the pass.
"""

import hashlib
import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from suite.errors import RequestError
from suite.files.foreign_content import describe_foreign_file, describe_pointer_file

# Legend: D texts, M document marks, B sequences, T tokens of a sequence.
Tokens: TypeAlias = npt.NDArray[np.int32]
Ints: TypeAlias = npt.NDArray[np.int64]

INDEX_SUFFIX, TOKENS_SUFFIX = ".idx", ".bin"
INDEX_MAGIC: Final = b"MMIDIDX\x00\x00"
INDEX_HEADER: Final = struct.Struct("<9sQBQQ")
"""Magic, version, code of the tokens' type, texts, document marks."""
INDEX_VERSION: Final = 1
TOKEN_TYPES: Final[dict[int, np.dtype[Any]]] = {4: np.dtype("<i4"), 8: np.dtype("<u2")}
"""Code of a type -> tokens of vocabularies above and below 65,500."""
LENGTH_TYPE, PLACE_TYPE = np.dtype("<i4"), np.dtype("<i8")
CHECKED_BYTES: Final = 64 << 20
"""Bytes of tokens that are checked at a time."""
TEXT_ORDER_STREAM, SEQUENCE_ORDER_STREAM = 0x7E77, 0x5E9
"""Parts of the orders' seeds, so that the two are independent."""
KEPT_PASSES: Final = 2
"""Orders that are kept: a batch may begin in one pass and end in the next."""


class SequenceSource(Protocol):
    """Sequences by their numbers."""

    def __len__(self) -> int:
        """Count the sequences."""

    def __getitem__(self, places: Sequence[int]) -> Tokens:
        """Return some of them, B T."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTokens:
    """A corpus, mapped into memory."""

    prefix: Path
    """The files' path without their suffixes."""
    token_N: npt.NDArray[Any]
    """All tokens, int32 or uint16."""
    length_D: npt.NDArray[np.int32]
    pointer_D: Ints
    mark_M: Ints

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self.mark_M) - 1

    def count_sequences(self, length: int) -> int:
        """Return how many sequences of `length` predicted tokens the corpus has."""
        return max(len(self.token_N) - 1, 0) // length


def format_index_path(prefix: Path) -> Path:
    """Return the path of a corpus's index."""
    return prefix.with_name(prefix.name + INDEX_SUFFIX)


def format_tokens_path(prefix: Path) -> Path:
    """Return the path of a corpus's tokens."""
    return prefix.with_name(prefix.name + TOKENS_SUFFIX)


def open_indexed_tokens(prefix: Path) -> IndexedTokens:
    """Map a corpus into memory; RequestError if a file is missing, if the index is none of
    version 1 or has another size than its counts ask for, or if its tokens' type is unknown.
    """
    index, tokens = format_index_path(prefix), format_tokens_path(prefix)
    if said := describe_foreign_file(index, "a Megatron index"):
        raise RequestError(f"{index} {said}")
    if said := describe_pointer_file(tokens):
        raise RequestError(f"{tokens} {said}")
    index_U = map_file_bytes(index)
    if len(index_U) < INDEX_HEADER.size or index_U[:9].tobytes() != INDEX_MAGIC:
        raise RequestError(f"{index}: no Megatron index: it does not begin with MMIDIDX")
    _, version, code, texts, marks = INDEX_HEADER.unpack(index_U[: INDEX_HEADER.size].tobytes())
    if version != INDEX_VERSION:
        raise RequestError(f"{index}: a Megatron index of version {version}; supported: 1")
    if code not in TOKEN_TYPES:
        raise RequestError(
            f"{index}: tokens of the type with code {code}; supported: 4 (int32), 8 (uint16)"
        )
    sizes = texts * LENGTH_TYPE.itemsize, texts * PLACE_TYPE.itemsize, marks * PLACE_TYPE.itemsize
    expected = INDEX_HEADER.size + sum(sizes)
    if len(index_U) != expected:
        raise RequestError(
            f"{index}: it has {len(index_U):,} bytes, and {texts:,} texts with {marks:,} document"
            f" marks need {expected:,}"
        )
    starts = np.cumsum([INDEX_HEADER.size, *sizes])
    length_D, pointer_D, mark_M = (
        index_U[start:stop].view(kind)
        for start, stop, kind in zip(
            starts, starts[1:], (LENGTH_TYPE, PLACE_TYPE, PLACE_TYPE), strict=False
        )
    )
    return IndexedTokens(
        prefix=prefix,
        token_N=map_tokens(tokens, TOKEN_TYPES[code]),
        length_D=length_D,
        pointer_D=pointer_D,
        mark_M=mark_M,
    )


def map_file_bytes(path: Path) -> npt.NDArray[np.uint8]:
    """Map a file into memory; RequestError if it is missing, empty or unreadable."""
    try:
        with path.open("rb") as stream:
            return np.frombuffer(
                mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8
            )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is empty"
        raise RequestError(f"{path}: cannot be read ({reason})") from error


def map_tokens(path: Path, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Map tokens into memory; RequestError if the file ends within one."""
    token_U = map_file_bytes(path)
    if len(token_U) % kind.itemsize:
        raise RequestError(
            f"{path}: it has {len(token_U):,} bytes, no multiple of a token's {kind.itemsize}"
        )
    return token_U.view(kind)


def check_index(corpus: IndexedTokens) -> None:
    """RequestError if the texts of an index do not fill the file of tokens without gaps, or if its
    documents do not contain each text once.
    """
    index = format_index_path(corpus.prefix)
    length_D, mark_M = corpus.length_D.astype(np.int64), corpus.mark_M
    if not len(length_D) or (length_D < 0).any():
        raise RequestError(f"{index}: it has no texts, or one of fewer than 0 tokens")
    width = corpus.token_N.itemsize
    end_D = np.cumsum(length_D) * width
    wrong_D = corpus.pointer_D != end_D - length_D * width
    if wrong_D.any():
        text = int(wrong_D.argmax())
        raise RequestError(
            f"{index}: text {text} is said to begin at byte {corpus.pointer_D[text]}, and the texts"
            f" before it end at byte {end_D[text] - length_D[text] * width}"
        )
    if end_D[-1] != corpus.token_N.nbytes:
        raise RequestError(
            f"{format_tokens_path(corpus.prefix)}: it has {corpus.token_N.nbytes:,} bytes, and its"
            f" index asks for {end_D[-1]:,}"
        )
    ordered = len(mark_M) > 1 and (np.diff(mark_M) >= 0).all()
    if not ordered or mark_M[0] != 0 or mark_M[-1] != len(length_D):
        raise RequestError(
            f"{index}: its document marks do not rise from 0 to its {len(length_D):,} texts"
        )


def hash_valid_tokens(corpus: IndexedTokens, vocabulary: int) -> str:
    """Return the SHA-256 of a corpus's tokens; RequestError for the first one that is outside the
    vocabulary.
    """
    hashed = hashlib.sha256()
    path, step = format_tokens_path(corpus.prefix), CHECKED_BYTES // corpus.token_N.itemsize
    for first in range(0, len(corpus.token_N), step):
        token_N = corpus.token_N[first : first + step]
        hashed.update(token_N.data)
        if token_N.min() < 0 or token_N.max() >= vocabulary:
            place = int(((token_N < 0) | (token_N >= vocabulary)).argmax())
            raise RequestError(
                f"{path}: token number {first + place} is {token_N[place]}; the tokenizer has"
                f" tokens 0 to {vocabulary - 1}"
            )
    return hashed.hexdigest()


class FirstSequences:
    """The first sequences of a corpus, in its own order.

    Args:
        corpus: must have as many.
        length: tokens that a sequence predicts; it holds one more, the next one's first.
        count: how many there are.
    """

    def __init__(self, corpus: IndexedTokens, length: int, count: int) -> None:
        require_sequences(corpus, length, count)
        self._corpus, self._length, self._count = corpus, length, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, places: Sequence[int]) -> Tokens:
        length, token_N = self._length, self._corpus.token_N
        cut = [token_N[place * length : (place + 1) * length + 1] for place in places]
        return np.stack(cut).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOrder:
    """The order of one pass over a corpus."""

    text_D: npt.NDArray[np.int32]
    """Texts in the order in which they lie in the stream."""
    end_D: Ints
    """End of each of these texts in the stream."""
    sequence_S: npt.NDArray[np.int32]
    """Sequences of the stream in the order in which they are read."""


class ShuffledSequences:
    """The sequences of all passes over a corpus, in the order that a seed gives them.

    Args:
        corpus: must have one sequence or more.
        length: tokens that a sequence predicts; it holds one more, the next one's first.
        seed: of the run.
    """

    def __init__(self, corpus: IndexedTokens, length: int, seed: int) -> None:
        require_sequences(corpus, length, 1)
        self._corpus, self._length, self._seed = corpus, length, seed
        self._sequences = corpus.count_sequences(length)
        self._find_order = lru_cache(maxsize=KEPT_PASSES)(self._draw_order)

    def __len__(self) -> int:
        """Count the sequences of one pass."""
        return self._sequences

    def __getitem__(self, places: Sequence[int]) -> Tokens:
        """Return sequences by their places in the order, which goes on behind one pass, B T."""
        return np.stack([self._cut_sequence(place) for place in places])

    def _draw_order(self, number: int) -> PassOrder:
        """Draw the order of a pass, counted from 0."""
        length_D = self._corpus.length_D
        texts, sequences = (
            np.random.default_rng([stream, self._seed, number])
            for stream in (TEXT_ORDER_STREAM, SEQUENCE_ORDER_STREAM)
        )
        text_D = texts.permutation(np.arange(len(length_D), dtype=np.int32))
        return PassOrder(
            text_D=text_D,
            end_D=np.cumsum(length_D[text_D], dtype=np.int64),
            sequence_S=sequences.permutation(np.arange(self._sequences, dtype=np.int32)),
        )

    def _cut_sequence(self, place: int) -> Tokens:
        """Cut the sequence of a place from its pass's stream, T."""
        number, rest = divmod(place, self._sequences)
        order = self._find_order(number)
        first = int(order.sequence_S[rest]) * self._length
        return np.concatenate(list(self._iterate_parts(order, first, first + self._length + 1)))

    def _iterate_parts(self, order: PassOrder, first: int, end: int) -> Iterator[Tokens]:
        """Yield the parts of texts that lie between two places of a pass's stream."""
        corpus = self._corpus
        row = int(np.searchsorted(order.end_D, first, side="right"))
        while first < end:
            text = int(order.text_D[row])
            start = int(corpus.pointer_D[text]) // corpus.token_N.itemsize
            behind = int(order.end_D[row])
            skipped = first - (behind - int(corpus.length_D[text]))
            taken = min(end, behind) - first
            yield corpus.token_N[start + skipped : start + skipped + taken].astype(np.int32)
            first, row = min(end, behind), row + 1


def require_sequences(corpus: IndexedTokens, length: int, count: int) -> None:
    """RequestError if a corpus has fewer sequences of this length than a run reads."""
    found = corpus.count_sequences(length)
    if found < count:
        raise RequestError(
            f"{format_tokens_path(corpus.prefix)}: its {len(corpus.token_N):,} tokens make"
            f" {found:,} sequences of {length}; needed: {count:,}"
        )
