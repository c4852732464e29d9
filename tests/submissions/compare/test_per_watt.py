"""Efficiency is compared between watts of one grade and scope; two kinds are refused with a sentence, and performance alone still compares."""

from dataclasses import replace

import pytest

from submissions.compare.per_unit import per_watt, unlike
from suite.records import EnergyRecord

METER = EnergyRecord(
    name="meter", source="meter", grade="meter", scope=("system",), within=(), joules=1000.0, average_w=50.0, edge_j=1.0, readings=200, longest_gap_ms=100,
    mlperf_mean_w=50.0, per_sample_j=0.5, samples_per_s_per_w=2.0, mj_per_query=None,
)  # fmt: skip
COUNTER = replace(METER, name="rapl:package0", source="rapl", grade="counter", scope=("package0",), samples_per_s_per_w=5.0)


def test_the_most_direct_watts_that_both_have_are_taken() -> None:
    """A counter of one package beside a meter of the whole machine says little."""
    both = per_watt((COUNTER, METER), (METER, COUNTER))
    assert both and (both.value, both.unit) == (2.0, "samples/s/W (meter, system)")
    common = per_watt((COUNTER, METER), (COUNTER,))
    assert common and (common.value, common.unit) == (5.0, "samples/s/W (counter, package0)")


@pytest.mark.parametrize(("change", "unit"), [({"mj_per_query": 7.5}, "mJ/query"), ({"samples_per_s_per_w": None}, "kJ per training")])
def test_streams_are_told_per_query_and_training_in_kilojoules(change: dict[str, float | None], unit: str) -> None:
    found = per_watt((replace(METER, **change),), ())  # type: ignore[arg-type]
    assert found and found.unit == f"{unit} (meter, system)"


@pytest.mark.parametrize(
    ("one", "other", "sentence"),
    [
        ((METER,), (COUNTER,), "efficiency is not compared: grade counter of package0 against grade meter of system"),
        ((METER,), (replace(METER, scope=("module",)),), "efficiency is not compared: grade meter of module against grade meter of system"),
        ((METER,), (), "efficiency is not compared: one side has no energy"),
        ((METER,), (METER,), None),
        ((), (), None),
    ],
    ids=["grades", "scopes", "one side", "alike", "none"],
)
def test_two_kinds_of_watts_are_never_compared(one: tuple[EnergyRecord, ...], other: tuple[EnergyRecord, ...], sentence: str | None) -> None:
    """One card's 52 images/s/W by its sensor and 28 by its design power: a factor of two by the measure alone."""
    assert unlike(one, other) == sentence
    assert (per_watt(other, one) is None) is (sentence is not None or not one)
