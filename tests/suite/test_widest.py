"""Which energy a rate is divided by: that of the system, or of all parts together, never that of
one part of several.
"""

from dataclasses import replace
from itertools import permutations

from suite.measurement.widest import select_widest_energies
from suite.records import EnergyRecord
from suite.studies.sweep import SweepFigures

METER = EnergyRecord(
    name="meter",
    source="meter",
    grade="meter",
    scope=("system",),
    within=(),
    joules=1000.0,
    average_w=50.0,
    edge_j=1.0,
    readings=200,
    longest_gap_ms=100,
    mlperf_mean_w=50.0,
    per_sample_j=0.5,
    samples_per_s_per_w=2.0,
    mj_per_query=None,
)
GPU = replace(METER, name="nvml:gpu0", source="nvml", grade="sensor", scope=("gpu0",))
PACKAGE = replace(
    METER,
    name="rapl:package0",
    source="rapl",
    grade="counter",
    scope=("package0",),
    within=("psys",),
)
CORES = replace(PACKAGE, name="rapl:core0", scope=("core0",), within=("package0", "psys"))
SUM = replace(
    PACKAGE, name="components", source="components", scope=("gpu0", "package0"), within=()
)


def test_a_sum_of_parts_comes_before_its_best_part() -> None:
    """A table that shows the GPU's watts beside the rate leaves out the package, since a sensor is
    the better grade.
    """
    for order in permutations((GPU, PACKAGE, CORES, SUM)):
        assert SweepFigures(energy=order).shown_energy == SUM and select_widest_energies(order) == (
            SUM,
        )


def test_the_system_comes_first_and_one_part_stands_for_what_it_contains() -> None:
    assert [each.name for each in select_widest_energies((CORES, PACKAGE, METER))] == [
        "meter",
        "rapl:package0",
    ]
    assert SweepFigures(energy=(CORES,)).shown_energy == CORES
    assert SweepFigures().shown_energy is None


def test_parts_that_nobody_added_are_no_whole() -> None:
    """A meter of a GPU and a counter of a package: no sum is recorded, and neither stands for
    both.
    """
    assert select_widest_energies((replace(METER, scope=("gpu0",)), PACKAGE)) == ()
