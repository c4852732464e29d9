"""Megatron's indexed files: what is read, in which order, and what is refused."""

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from suite.errors import RequestError
from workloads.llama.published import megatron
from workloads.llama.published.megatron import (
    FirstSequences,
    ShuffledSequences,
    check_index,
    hash_valid_tokens,
    open_indexed_tokens,
)

from .conftest import write_indexed_tokens

VOCABULARY = 100
HEADER_BYTES = 34


def make_texts(count: int = 40) -> list[list[int]]:
    """Texts of 1 to 30 tokens, in which every run of three tokens is another one."""
    numbers = np.random.default_rng(3).integers(1, VOCABULARY, 2000).tolist()
    lengths = [1 + 7 * number % 30 for number in range(count)]
    return [[numbers.pop() for _ in range(length)] for length in lengths]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_indexed_tokens(tmp_path / "c4_text_document", make_texts())


@pytest.mark.parametrize("code", [4, 8])
def test_a_corpus_is_read(tmp_path: Path, code: int) -> None:
    """Both types of tokens, several texts in a document."""
    texts = make_texts()
    marks = [0, 3, 3, 39, 40]
    prefix = write_indexed_tokens(tmp_path / "c4", texts, code=code, marks=marks)
    corpus = open_indexed_tokens(prefix)
    check_index(corpus)
    assert corpus.token_N.tolist() == [token for text in texts for token in text]
    assert corpus.length_D.tolist() == [len(text) for text in texts]
    assert corpus.documents == 4
    content = prefix.with_suffix(".bin").read_bytes()
    assert hash_valid_tokens(corpus, VOCABULARY) == hashlib.sha256(content).hexdigest()


def test_first_sequences_share_their_last_token_with_the_next(prefix: Path) -> None:
    corpus = open_indexed_tokens(prefix)
    stream = [token for text in make_texts() for token in text]
    sequences = FirstSequences(corpus, 16, 5)
    assert len(sequences) == 5
    assert sequences[[0, 4]].tolist() == [stream[:17], stream[64:81]]
    assert sequences[[1]].dtype == np.int32


def read_pass(sequences: ShuffledSequences, number: int = 0) -> list[list[int]]:
    count = len(sequences)
    token_BT = sequences[range(number * count, (number + 1) * count)]
    return [list(map(int, row)) for row in token_BT]


def test_a_pass_has_every_text_once_in_a_shuffled_stream(tmp_path: Path) -> None:
    """Texts of one repeated token each, so that the stream can be put together again."""
    texts = [[number] * (5 + number % 7) for number in range(1, 41)]
    prefix = write_indexed_tokens(tmp_path / "c4", texts)
    corpus = open_indexed_tokens(prefix)
    length = 8
    sequences = ShuffledSequences(corpus, length, seed=1)
    rows = read_pass(sequences)
    assert len(rows) == (len(corpus.token_N) - 1) // length
    predicted = [token for row in rows for token in row[:-1]]
    lost = len(corpus.token_N) - len(predicted)
    assert 1 <= lost <= length
    missing = sum(len(text) - predicted.count(text[0]) for text in texts)
    assert missing == lost  # the end of the stream alone
    holding = {text[0]: [row for row in rows if text[0] in row] for text in texts}
    assert sum(not held for held in holding.values()) <= 1
    assert all(len(held) <= 3 for held in holding.values())
    assert all(is_one_run(row, token) for token, held in holding.items() for row in held)
    order = [token for row in rows for token in dict.fromkeys(row)]
    assert order != sorted(order)


def is_one_run(row: list[int], token: int) -> bool:
    """Whether all places of a token are neighbours."""
    places = [place for place, found in enumerate(row) if found == token]
    return places == [*range(places[0], places[0] + len(places))]


def test_the_order_is_a_function_of_seed_and_pass(prefix: Path) -> None:
    corpus = open_indexed_tokens(prefix)
    one, same, other = (ShuffledSequences(corpus, 16, seed) for seed in (1, 1, 2))
    assert read_pass(one) == read_pass(same)
    assert read_pass(one, 3) == read_pass(same, 3)
    assert read_pass(one) != read_pass(other)
    assert read_pass(one) != read_pass(one, 1)
    assert sorted(read_pass(one)) != sorted(read_pass(one, 1))  # texts are shuffled, too


def test_a_batch_may_reach_into_the_next_pass(prefix: Path) -> None:
    sequences = ShuffledSequences(open_indexed_tokens(prefix), 16, 1)
    last = len(sequences) - 1
    both = sequences[[last, last + 1]].tolist()
    assert both == [read_pass(sequences)[-1], read_pass(sequences, 1)[0]]


def change_bytes(place: int, content: bytes) -> Callable[[Path], None]:
    """Overwrite a part of the index."""

    def change(prefix: Path) -> None:
        path = prefix.with_suffix(".idx")
        old = path.read_bytes()
        path.write_bytes(old[:place] + content + old[place + len(content) :])

    return change


def cut_file(suffix: str, count: int) -> Callable[[Path], None]:
    def cut(prefix: Path) -> None:
        path = prefix.with_suffix(suffix)
        path.write_bytes(path.read_bytes()[:-count] if count else b"")

    return cut


def delete_file(suffix: str) -> Callable[[Path], None]:
    return lambda prefix: prefix.with_suffix(suffix).unlink()


def point_to(suffix: str) -> Callable[[Path], None]:
    """What a clone without Git LFS has in place of a file."""
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 84000000\n"
    return lambda prefix: prefix.with_name(prefix.name + suffix).write_text(pointer) and None


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (delete_file(".idx"), r"\.idx: cannot be read \(No such file"),
        (delete_file(".bin"), r"\.bin: cannot be read \(No such file"),
        (cut_file(".idx", 0), r"\.idx: cannot be read \(it is empty\)"),
        (cut_file(".bin", 0), r"\.bin: cannot be read \(it is empty\)"),
        (cut_file(".idx", 8), r"\.idx: it has 834 bytes, and 40 texts with 41 .* need 842"),
        (cut_file(".bin", 2), r"\.bin: it has .* bytes, no multiple of a token's 4"),
        (change_bytes(0, b"MMIDXXX"), "no Megatron index: it does not begin with MMIDIDX"),
        (point_to(".idx"), r"\.idx is a Git LFS pointer of 133 bytes, not the file: git lfs pull"),
        (point_to(".bin"), r"\.bin is a Git LFS pointer of 133 bytes, not the file: git lfs pull"),
        (change_bytes(9, b"\x02"), "a Megatron index of version 2; supported: 1"),
        (change_bytes(17, b"\x07"), r"tokens of the type with code 7; supported: 4 \(int32\)"),
        (change_bytes(18, b"\x29"), r"it has 842 bytes, and 41 texts with 41 .* need 854"),
    ],
)
def test_what_cannot_be_opened_is_refused(
    prefix: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(prefix)
    with pytest.raises(RequestError, match=said):
        open_indexed_tokens(prefix)


POINTERS = HEADER_BYTES + 4 * 40
MARKS = POINTERS + 8 * 40


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_file(".bin", 4), r"\.bin: it has .* bytes, and its index asks for"),
        (change_bytes(HEADER_BYTES, struct.pack("<i", -5)), "one of fewer than 0 tokens"),
        (change_bytes(HEADER_BYTES, struct.pack("<i", 3)), "text 1 is said to begin at byte 4"),
        (change_bytes(POINTERS + 80, struct.pack("<q", 1 << 40)), "text 10 is said to begin"),
        (change_bytes(POINTERS, struct.pack("<q", -4)), "text 0 is said to begin at byte -4"),
        (change_bytes(MARKS, struct.pack("<q", 1)), "do not rise from 0 to its 40 texts"),
        (change_bytes(MARKS + 320, struct.pack("<q", 39)), "do not rise from 0 to its 40 texts"),
        (change_bytes(MARKS + 8, struct.pack("<q", 50)), "do not rise from 0 to its 40 texts"),
    ],
)
def test_an_index_that_disagrees_is_refused(
    prefix: Path, damage: Callable[[Path], None], said: str
) -> None:
    """Otherwise texts would be read from wrong places, quietly."""
    damage(prefix)
    with pytest.raises(RequestError, match=said):
        check_index(open_indexed_tokens(prefix))


@pytest.mark.parametrize("token", [VOCABULARY, -1])
def test_a_token_outside_the_vocabulary_is_named(
    tmp_path: Path, token: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the first piece that is checked at a time."""
    monkeypatch.setattr(megatron, "CHECKED_BYTES", 12)
    prefix = write_indexed_tokens(tmp_path / "c4", [[1, 2, 3], [4, token]])
    with pytest.raises(RequestError, match=rf"token number 4 is {token}; .* tokens 0 to 99"):
        hash_valid_tokens(open_indexed_tokens(prefix), VOCABULARY)


def test_too_few_tokens_are_refused(prefix: Path) -> None:
    corpus = open_indexed_tokens(prefix)
    sequences = corpus.count_sequences(16)
    assert len(FirstSequences(corpus, 16, sequences)) == sequences
    with pytest.raises(RequestError, match=rf"make {sequences} sequences of 16; needed"):
        FirstSequences(corpus, 16, sequences + 1)
    with pytest.raises(RequestError, match="make 0 sequences of 9999; needed: 1"):
        ShuffledSequences(corpus, 9999, 1)
