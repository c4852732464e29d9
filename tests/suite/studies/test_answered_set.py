"""The answers of two systems are compared sample by sample, and every difference has its test."""

from pathlib import Path

import pytest

from suite.studies.answered_set import (
    AnsweredSet,
    build_answered_set,
    compare_answered_sets,
)
from suite.studies.precision import iterate_comparisons
from suite.studies.precision_rows import PrecisionAnswer
from workloads.common.text.references import write_references
from workloads.common.text.token_answers import pack_token_ids
from workloads.llama.vocabulary import END_ID, encode_text
from workloads.resnet50.scoring import pack_class_answer, write_image_labels

PICTURES = 200


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    """Pictures whose labels are the last digits of their numbers."""
    write_image_labels(tmp_path, [number % 10 for number in range(PICTURES)])
    return tmp_path


def answer_pictures(truth: Path, *wrong: int) -> AnsweredSet:
    """Answer all pictures right but some."""
    answers = {
        sample: pack_class_answer([(sample + (sample in wrong)) % 10]) for sample in range(PICTURES)
    }
    return build_answered_set("resnet50", "smoke", truth, answers)


def tell(one: AnsweredSet, other: AnsweredSet) -> list[str]:
    """Say how the first differs from the second."""
    answer = PrecisionAnswer(
        scores={},
        samples_per_second=None,
        reference="torch fp32",
        compared={"mine int8": compare_answered_sets(one, other)},
        refused=(),
    )
    return list(iterate_comparisons(answer))


def test_a_system_that_loses_is_told_apart(truth: Path) -> None:
    """By the samples that only one of the two answers right."""
    losing, honest = answer_pictures(truth, *range(10)), answer_pictures(truth)
    found = compare_answered_sets(losing, honest)
    assert (found.samples, found.equal, found.first_difference) == (PICTURES, PICTURES - 10, None)
    assert found.metrics["top1"].difference == pytest.approx(-0.05)
    (line,) = tell(losing, honest)
    assert line.startswith("mine int8 to torch fp32: top1 -0.0500, 95 % interval -0.0")
    assert "McNemar p 0.002: separable; 200 samples find 0.0" in line


def test_as_many_gained_as_lost_is_no_difference(truth: Path) -> None:
    """Even though some answers differ."""
    one, other = answer_pictures(truth, 1, 2, 3, 4), answer_pictures(truth, 5, 6, 7, 8)
    found = compare_answered_sets(one, other)
    assert found.equal == PICTURES - 8 and not found.metrics["top1"].is_separable
    assert "McNemar p 1: not separable" in tell(one, other)[0]


def test_answers_of_tokens_differ_from_a_token_on(tmp_path: Path) -> None:
    """Where half of the differing answers have begun to."""
    pytest.importorskip("rouge_score")
    summaries = ["\u2460 Bruno \u2461 Dora \u2462 Anna"] * 8
    write_references(tmp_path, summaries)
    right = [*encode_text(summaries[0]), END_ID]
    late = [*right[:3], right[1], *right[4:]]
    answers = [{sample: pack_token_ids(right) for sample in range(8)} for _ in range(2)]
    answers[1] |= {sample: pack_token_ids(late) for sample in (0, 1, 2)}
    one, other = (build_answered_set("llama", "smoke", tmp_path, each) for each in answers)
    found = compare_answered_sets(other, one)
    assert (found.equal, found.agreeing, found.first_difference) == (5, 8, 4)
    assert found.metrics["rouge1"].difference < 0 and not found.metrics["rouge1"].is_separable
    assert tell(other, one)[-1] == (
        "mine int8 to torch fp32: 3 answers differ, half of them by token 4"
    )


def test_what_cannot_be_scored_has_no_test(truth: Path) -> None:
    """A damaged truth, or a workload without a sampler."""
    honest, losing = answer_pictures(truth), answer_pictures(truth, 1)
    (truth / "labels.txt").write_text("no numbers\n")
    assert compare_answered_sets(losing, honest).metrics == {}
    other = [
        build_answered_set("unknown", "smoke", truth, {0: content}) for content in (b"a", b"b")
    ]
    found = compare_answered_sets(*other)
    assert (found.samples, found.equal, found.metrics) == (1, 0, {})
