"""Top-1 and top-5 from raw answers, as the judge takes them, and when two answers are one
model's.
"""

import struct
from pathlib import Path

import pytest
from sampled_scores import check_whole_score

from workloads.resnet50 import scoring
from workloads.resnet50.agreement import agree
from workloads.resnet50.scoring import read_image_labels, score, write_image_labels


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    write_image_labels(tmp_path, [3, 0, 11, 999])
    return tmp_path


def single(*labels: int) -> dict[int, bytes]:
    return {sample: scoring.pack_class_answer([label]) for sample, label in enumerate(labels)}


def test_all_right(truth: Path) -> None:
    """Line number is sample number, from 0."""
    assert score(single(3, 0, 11, 999), truth) == {"top1": 1.0}


def test_half_right(truth: Path) -> None:
    """A share on 0-1, not a percentage."""
    assert score(single(3, 1, 11, 998), truth) == {"top1": 0.5}


def test_five_classes_are_scored_twice(truth: Path) -> None:
    """The likeliest decides top-1 alone; an answer of one class among those of five counts where it
    is right.
    """
    answers = {0: [3, 1, 2, 4, 5], 1: [9, 8, 7, 6, 0], 2: [1, 2, 3, 4, 5], 3: [999]}
    assert score(
        {sample: scoring.pack_class_answer(best) for sample, best in answers.items()}, truth
    ) == {
        "top1": 0.5,
        "top5": 0.75,
    }


def test_a_missing_answer_is_wrong(truth: Path) -> None:
    """Leaving out the hard samples must not raise the score: the denominator is the whole truth."""
    assert score({0: scoring.pack_class_answer([3])}, truth) == {"top1": 0.25}


def test_an_answer_beyond_the_truth_counts_nothing(truth: Path) -> None:
    """Extra samples neither help nor hurt."""
    assert score(single(3, 0, 11, 999) | {7: scoring.pack_class_answer([3])}, truth) == {
        "top1": 1.0
    }


@pytest.mark.parametrize(
    "answer", [b"", b"\x03", struct.pack("<q", 3), struct.pack(">i", 3), struct.pack("<f", 3.0)]
)
def test_misshapen_answers_are_wrong(truth: Path, answer: bytes) -> None:
    """Wrong length, byte order or type is no answer, even where its first bytes would do."""
    assert score(single(9, 0, 11, 999) | {0: answer}, truth) == {"top1": 0.75}


def test_answers_are_little_endian() -> None:
    """The accuracy log of another machine must mean the same."""
    assert scoring.pack_class_answer([258]) == b"\x02\x01\x00\x00"


@pytest.mark.parametrize("other", [[3, 1, 2, 4, 5], [3, 2, 1, 4, 5], [3, 1, 2, 4, 9]])
def test_near_ties_are_one_model_s(other: list[int]) -> None:
    """The order of classes that are nearly as likely, and the last of them, depend on the batch."""
    assert agree(
        scoring.pack_class_answer([3, 1, 2, 4, 5]), scoring.pack_class_answer(other)
    ) and agree(scoring.pack_class_answer([3]), scoring.pack_class_answer([3]))


@pytest.mark.parametrize("other", [[1, 3, 2, 4, 5], [3, 6, 7, 8, 9], [3], []])
def test_other_answers_are_another_model_s(other: list[int]) -> None:
    """Another best class, other classes behind it, or another form of answer."""
    assert not agree(
        scoring.pack_class_answer([3, 1, 2, 4, 5]), scoring.pack_class_answer(other)
    ) and not agree(scoring.pack_class_answer(other), b"")


def test_labels_come_back(truth: Path) -> None:
    """What is written is what is read."""
    assert read_image_labels(truth) == [3, 0, 11, 999]


def test_an_empty_truth_is_no_truth(tmp_path: Path) -> None:
    """0 of 0 would divide by zero."""
    write_image_labels(tmp_path, [])
    with pytest.raises(ValueError, match=r"labels\.txt"):
        score({}, tmp_path)


def test_a_damaged_truth_is_told(tmp_path: Path) -> None:
    """Anything but numbers is an error, not a low score."""
    (tmp_path / "labels.txt").write_text("1\ncat\n", "ascii")
    with pytest.raises(ValueError, match="cat"):
        score({}, tmp_path)


def test_the_sampler_gives_the_score(truth: Path) -> None:
    """Which pictures are right, too, for five classes and for one."""
    answers = {sample: struct.pack("<5i", 3, 1, 2, 0, 4) for sample in range(3)}
    check_whole_score(score, scoring.sample_resnet50_scores, answers, truth)
    check_whole_score(score, scoring.sample_resnet50_scores, single(3, 1, 2), truth)
    right = scoring.sample_resnet50_scores(single(*read_image_labels(truth)), truth).right
    assert right["top1"].all() and right.keys() == {"top1"}
