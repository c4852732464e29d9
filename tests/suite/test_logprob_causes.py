"""What log-probabilities show of a system: who is accused, and who is not, on made errors."""

import math
from typing import Any

import numpy as np
import pytest

from suite.loadgen.logprob_record import REFERENCE_COLUMNS, REFERENCE_FIELDS, SAID_FIELDS
from suite.measurement.logprob_causes import (
    COARSE,
    LARGE,
    LEAST_UNSURE,
    OTHER_FORMAT,
    OTHER_POSITIONS,
    LogprobDifferences,
    average_by_place,
    compare_said_tokens,
    measure_absolute_differences,
)

LENGTH = 32
ANSWERS = 64
BF16 = 0.03
"""Size of bf16's errors of logits."""
CHECKPOINT_FP32 = {"bf16": BF16, "bf16_weights": BF16 / 2, "fp16_weights": BF16 / 16}
CHECKPOINT_BF16 = {"bf16": BF16, "bf16_weights": 0.0, "fp16_weights": 0.0}
"""Errors by cause: a checkpoint in bf16 keeps its weights in both formats."""


def make_reference(spreads: dict[str, float], answers: int = ANSWERS) -> tuple[Any, Any]:
    """Rows of PyTorch, and the errors of logits of each column."""
    random = np.random.Generator(np.random.PCG64(7))
    table = np.zeros(answers * LENGTH, np.dtype(list(REFERENCE_FIELDS)))
    table["sample"], table["place"] = np.divmod(np.arange(len(table)), LENGTH)
    table["position"] = 100 + table["place"]
    fp32 = -random.exponential(1.0, len(table)) - 0.1
    errors = {
        name: random.normal(0, 1, len(table)) * spreads.get(name, 1.0)
        for name in REFERENCE_COLUMNS
        if name not in ("fp32", "best")
    }
    table["fp32"] = table["best"] = fp32
    for name, each in errors.items():
        table[name] = fp32 + (1 - np.exp(fp32)) * each
    return table, errors


def say(reference: Any, errors: Any) -> Any:
    """Rows of a system with these errors of logits."""
    table = np.zeros(len(reference), np.dtype(list(SAID_FIELDS)))
    table["sample"], table["place"] = reference["sample"], reference["place"]
    table["prompt_tokens"] = 100
    table["said"] = reference["fp32"] + (1 - np.exp(reference["fp32"])) * errors
    return table


def compare(
    size: float, stated: str, spreads: dict[str, float] = CHECKPOINT_FP32, cause: str = ""
) -> LogprobDifferences:
    """Compare a system whose errors have this size, besides those of a cause."""
    reference, errors = make_reference(spreads)
    noise = np.random.Generator(np.random.PCG64(8)).normal(0, size * BF16, len(reference))
    said = say(reference, noise + (errors[cause] if cause else 0.0))
    found = compare_said_tokens(said, reference, stated)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("size", "stated", "found"),
    [
        (1e-4, "bf16", "fp32"),
        (0.3, "bf16", "fp16"),
        (1e-4, "fp16", "fp32"),
        (1.0, "bf16", "bf16"),
        (0.1, "tf32", "fp16"),
        (1e-4, "tf32", "fp32"),
        (1.0, "int8", "bf16"),
        (1.0, "", "bf16"),
    ],
)
def test_nobody_is_accused_of_computing_more_precisely(size: float, stated: str, found: str):
    """An engine may keep bf16's weights and sum in fp32; what it does is told all the same."""
    told = compare(size, stated, CHECKPOINT_BF16)
    assert (told.finding, told.number_format) == ("", found)


@pytest.mark.parametrize(
    ("size", "stated"),
    [(0.1, "fp32"), (1.0, "float16"), (1.0, "fp32"), (1.0, "fp16"), (1.0, "tf32")],
)
def test_a_coarser_format_than_stated_is_one(size: float, stated: str):
    assert compare(size, stated, CHECKPOINT_BF16).finding == OTHER_FORMAT


@pytest.mark.parametrize(
    ("cause", "stated", "finding"),
    [
        ("fp16_weights", "bf16", OTHER_FORMAT),
        ("fp16_weights", "fp16", ""),
        ("bf16_weights", "fp16", OTHER_FORMAT),
        ("bf16_weights", "bf16", ""),
    ],
)
def test_rounded_weights_show_their_format(cause: str, stated: str, finding: str):
    """Even a finer one: honest engines do not round to it."""
    assert compare(0.01, stated, cause=cause).finding == finding


@pytest.mark.parametrize("stated", ["int8", "fp8", "int4", "Q4_K_M"])
def test_a_stated_coarse_format_may_make_larger_errors(stated: str):
    """Up to where no format keeps anything."""
    told = compare(12.0, stated)
    assert (told.finding, told.number_format) == ("", "")
    assert "coarser than bf16 may make them" in told.evidence
    assert compare(90.0, stated).finding == LARGE


@pytest.mark.parametrize("stated", ["fp32", "bf16", "bfloat16", "BF16", "all F32", ""])
def test_larger_errors_need_a_stated_format(stated: str):
    assert compare(12.0, stated).finding == COARSE


@pytest.mark.parametrize(("grows", "finding"), [(0.0, LARGE), (0.2, LARGE), (1.5, OTHER_POSITIONS)])
def test_growth_has_to_be_more_than_clear(grows: float, finding: str):
    """Of many tokens even a correlation of 0.05 is clear; other weights may have it."""
    reference, _ = make_reference(CHECKPOINT_FP32, answers=512)
    random = np.random.Generator(np.random.PCG64(8))
    sizes = 1 + grows * (reference["place"] / LENGTH)
    said = say(reference, random.normal(0, 90 * BF16, len(reference)) * sizes)
    said["said"] = np.minimum(said["said"], 0.0)
    told = compare_said_tokens(said, reference, "bf16")
    assert told is not None and told.finding == finding


def test_few_tokens_show_nothing():
    reference, _ = make_reference(CHECKPOINT_FP32, answers=1)
    reference = reference[: LEAST_UNSURE - 1]
    told = compare_said_tokens(say(reference, 3.0), reference, "bf16")
    assert told is not None and told.times_bf16 is None and "too few" in told.evidence


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("column", ["place", "position", "said", "fp32", "bf16"])
@pytest.mark.parametrize("value", [-5, -math.inf, math.inf, math.nan, 1e30])
def test_edited_rows_are_compared_as_far_as_they_can_be(column: str, value: float):
    """Nothing fails on a file that somebody has edited."""
    reference, errors = make_reference(CHECKPOINT_FP32)
    said = say(reference, errors["bf16"])
    table = said if column in ("said", "place") else reference
    if not math.isfinite(value) or abs(value) > 1e9:
        value = -(2**31) if column in ("place", "position") else value
    table[column][5] = value
    compare_said_tokens(said, reference, "bf16")


def test_places_begin_at_the_first():
    assert average_by_place(np.array([1.0, 3.0, 5.0]), np.array([0, 1, 2])) == (1.0, 4.0)


@pytest.mark.filterwarnings("error")
def test_classes_are_compared_where_both_are_logarithms():
    """Files of pictures may be edited as well."""
    one = np.array([-1.0, -2.0, -math.inf, math.nan, 1e30], np.float32)
    found = measure_absolute_differences(one, np.array([-1.5, -2.0, -3.0, -4.0, -5.0], np.float32))
    assert found is not None
    assert (found.values, found.mean, found.largest) == (2, 0.25, 0.5)
    assert measure_absolute_differences(one[2:], one[2:]) is None
    assert measure_absolute_differences(one[:0], one[:0]) is None
