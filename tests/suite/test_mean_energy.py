"""The mean energy of several runs."""

from dataclasses import replace

import pytest

from suite.measurement.mean_energy import average_energies
from suite.records import EnergyRecord
from suite.studies.sweep import SWEEP, SweepFigures

METER = EnergyRecord(
    name="meter",
    source="meter",
    grade="meter",
    scope=("system",),
    within=(),
    joules=100.0,
    average_w=10.0,
    edge_j=1.0,
    readings=100,
    longest_gap_ms=100,
    mlperf_mean_w=None,
    per_sample_j=0.5,
    samples_per_s_per_w=2.0,
    mj_per_query=None,
)


def test_figures_are_means_and_doubts_the_worst() -> None:
    other = replace(METER, joules=300.0, per_sample_j=1.5, edge_j=4.0, readings=90)
    (found,) = average_energies([(METER,), (other,)])
    assert (found.joules, found.per_sample_j) == (200.0, 1.0)
    assert (found.edge_j, found.readings, found.mj_per_query) == (4.0, 90, None)


@pytest.mark.parametrize("others", [(), (replace(METER, scope=("gpu0",)),)])
def test_a_channel_that_not_all_runs_have_has_no_mean(others: tuple[EnergyRecord, ...]) -> None:
    assert average_energies([(METER,), others]) == ()
    assert average_energies([]) == ()


def test_a_point_of_a_sweep_has_the_mean_of_its_runs() -> None:
    """The first run's energy stood for all."""
    runs = [SweepFigures(energy=(replace(METER, joules=each),)) for each in (100.0, 200.0, 600.0)]
    (found,) = SWEEP.combine_figures([*runs[:2], replace(runs[2], no_energy=("late",))]).energy
    assert found.joules == 300.0
    assert SWEEP.combine_figures(
        [replace(each, no_energy=("late",)) for each in runs]
    ).no_energy == ("late",)
