"""Top-1 from raw answers, as the judge takes it."""

import struct
from pathlib import Path

import pytest

from workloads.resnet50.scoring import ANSWER, read_labels, score, write_labels


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    write_labels(tmp_path, [3, 0, 11, 999])
    return tmp_path


def packed(*labels: int) -> dict[int, bytes]:
    return {sample: ANSWER.pack(label) for sample, label in enumerate(labels)}


def test_all_right(truth: Path) -> None:
    """Line number is sample number, from 0."""
    assert score(packed(3, 0, 11, 999), truth) == {"top1": 1.0}


def test_half_right(truth: Path) -> None:
    """A share on 0-1, not a percentage."""
    assert score(packed(3, 1, 11, 998), truth) == {"top1": 0.5}


def test_a_missing_answer_is_wrong(truth: Path) -> None:
    """Leaving out the hard samples must not raise the score: the denominator is the whole truth."""
    assert score({0: ANSWER.pack(3)}, truth) == {"top1": 0.25}


def test_an_answer_beyond_the_truth_counts_nothing(truth: Path) -> None:
    """Extra samples neither help nor hurt."""
    assert score(packed(3, 0, 11, 999) | {7: ANSWER.pack(3)}, truth) == {"top1": 1.0}


@pytest.mark.parametrize("answer", [b"", b"\x03", struct.pack("<q", 3), struct.pack(">i", 3), struct.pack("<f", 3.0)])
def test_misshapen_answers_are_wrong(truth: Path, answer: bytes) -> None:
    """Wrong length, byte order or type is no answer, even where its first bytes would do."""
    assert score(packed(9, 0, 11, 999) | {0: answer}, truth) == {"top1": 0.75}


def test_answers_are_little_endian() -> None:
    """The accuracy log of another machine must mean the same."""
    assert ANSWER.pack(258) == b"\x02\x01\x00\x00"


def test_labels_come_back(truth: Path) -> None:
    """What is written is what is read."""
    assert read_labels(truth) == [3, 0, 11, 999]


def test_an_empty_truth_is_no_truth(tmp_path: Path) -> None:
    """0 of 0 would divide by zero."""
    write_labels(tmp_path, [])
    with pytest.raises(ValueError, match=r"labels\.txt"):
        score({}, tmp_path)


def test_a_damaged_truth_is_told(tmp_path: Path) -> None:
    """Anything but numbers is an error, not a low score."""
    (tmp_path / "labels.txt").write_text("1\ncat\n", "ascii")
    with pytest.raises(ValueError, match="cat"):
        score({}, tmp_path)
