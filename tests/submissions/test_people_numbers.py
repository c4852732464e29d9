"""Figures of any size as people read them, at the places that print them: thousands apart, and never
with an exponent.
"""

import pytest
from changed_results import change_result, make_result

from submissions.publications import format_headline
from submissions.score.text_table import describe_convergence_batch
from suite.records import EnergyRecord
from suite.result import Convergence


@pytest.mark.parametrize(
    ("batch", "told"), [(1048576.0, "batch 1,048,576"), (64.0, "batch 64"), (None, "")]
)
def test_the_batch_of_a_reference_point(batch: float | None, told: str) -> None:
    """A million samples were 1.04858e+06."""
    assert describe_convergence_batch(Convergence(factor=1.0, batch=batch)) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (32650.25, "32,650.25 samples/s"),
        (0.0000123, "0.0000123 samples/s"),
        (5e11, "500,000,000,000"),
    ],
)
def test_a_published_value(value: float, told: str) -> None:
    row = make_result(value=value, unit="samples/s", runs=(value,), workload="resnet50")
    assert format_headline(change_result(row, profile="published")).startswith(told)


def test_the_error_of_an_energy() -> None:
    """1.23e+04 J at the edges."""
    energy = EnergyRecord(
        name="meter",
        source="meter",
        grade="meter",
        scope=("system",),
        within=(),
        joules=20_000.0,
        average_w=50.0,
        edge_j=12_345.6,
        readings=9,
        longest_gap_ms=1,
        mlperf_mean_w=None,
        per_sample_j=None,
        samples_per_s_per_w=2.0,
        mj_per_query=None,
    )
    assert energy.edge_error_note == ", +-12,346 J at the edges"
