"""Efficiency is compared between watts of one grade and one set of parts, the widest that was
measured; others are refused with a sentence.
"""

from dataclasses import replace
from itertools import permutations

import pytest
from changed_results import change_result, make_result

from submissions.compare.comparison import CompareRequest, compare_results
from submissions.compare.per_unit import FigureBasis, FigureRequest, compute_watt_figure
from submissions.compare.watts import (
    choose_common_energy_kind,
    explain_energy_mismatch,
    group_widest_energies,
)
from suite.records import EnergyRecord

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
COUNTER = replace(
    METER,
    name="rapl:package0",
    source="rapl",
    grade="counter",
    scope=("package0",),
    within=("psys",),
    samples_per_s_per_w=8.0,
)
SECOND = replace(COUNTER, name="rapl:package1", scope=("package1",))
CORES = replace(
    COUNTER,
    name="rapl:core0",
    scope=("core0",),
    within=("package0", "psys"),
    samples_per_s_per_w=9.0,
)
SUM = replace(
    COUNTER,
    name="components",
    source="components",
    scope=("package0", "package1"),
    within=(),
    samples_per_s_per_w=4.0,
)
GPUS = tuple(
    replace(COUNTER, name=f"nvml:gpu{n}", source="nvml", scope=(f"gpu{n}",), within=())
    for n in range(8)
)
EIGHT = replace(SUM, scope=tuple(f"gpu{n}" for n in range(8)), samples_per_s_per_w=1.0)
ANALYZER = replace(
    METER, name="analyzer", source="mlperf-power", grade="analyzer", samples_per_s_per_w=1.9
)
Energies = tuple[EnergyRecord, ...]


def shown(*results: Energies) -> list[tuple[float | None, str, tuple[str, ...]]]:
    """What `podium compare --per watt` shows of each result: figure, unit, remarks."""
    score = make_result(
        org="o",
        system="s",
        division="open",
        profile="full",
        round="podium-v1",
        workload="fake",
        scenario="Offline",
        metric="m",
        value=100.0,
        unit="samples/s",
        runs=(100.0,),
        compliant=True,
    )
    sides = [change_result(score, source=str(n), energy=energy) for n, energy in enumerate(results)]
    (found,) = compare_results(
        sides,
        [each.source for each in sides],
        CompareRequest(per=FigureRequest(basis=FigureBasis.WATT)),
    )
    return [
        (
            each.derived.value if each.derived else None,
            each.derived.unit if each.derived else "",
            each.notes,
        )
        for each in found.results
    ]


def test_two_packages_are_divided_by_the_watts_of_both() -> None:
    """The rate of the whole machine by the watts of one package is twice too good."""
    for order in permutations((COUNTER, SECOND, CORES, SUM)):
        ((value, unit, _),) = shown(order)
        assert (value, unit) == (4.0, "samples/s/W (counter, package0 + package1)")


def test_one_gpu_and_eight_are_two_scopes() -> None:
    """Eight GPUs and one share gpu0: the rate of eight by the watts of one is eight times too
    good.
    """
    one, eight = shown(GPUS[:1], (*GPUS, EIGHT))
    assert one[:2] == (8.0, "samples/s/W (counter, gpu0)") and eight[0] is None
    assert "efficiency is not compared: grade counter of gpu0 + gpu1" in "".join(eight[2])


def test_the_order_of_the_parts_is_no_difference() -> None:
    """`--power rapl,nvml` and `--power nvml,rapl` read the same."""
    total = replace(SUM, scope=("gpu0", "package0"))
    first, other = shown(
        (COUNTER, GPUS[0], total), (replace(total, scope=("package0", "gpu0")), GPUS[0], COUNTER)
    )
    assert first[0] == other[0] == 4.0


def test_a_sum_of_other_grades_is_another_kind() -> None:
    """A sum has its weakest grade: two sums of one name may still rest on a shunt here and on a
    model there.
    """
    total = replace(SUM, scope=("gpu0", "package0"))
    _, other = shown((COUNTER, GPUS[0], total), (COUNTER, replace(GPUS[0], grade="sensor"), total))
    assert (
        other[0] is None
        and "grade counter of gpu0 (sensor) + package0 against grade counter of gpu0 + package0"
        in "".join(other[2])
    )


@pytest.mark.parametrize("swap", [False, True], ids=["baseline has both", "other has both"])
def test_a_meter_is_never_shown_beside_an_analyzer(swap: bool) -> None:
    """The baseline has a meter and an analyzer's session, the other the meter alone: both are shown
    by the meter.
    """
    both, alone = (METER, ANALYZER), (METER,)
    found = shown(*((alone, both) if swap else (both, alone)))
    assert [each[:2] for each in found] == [(2.0, "samples/s/W (meter, system)")] * 2


def test_among_three_each_is_shown_by_one_kind_or_refused() -> None:
    """Meter and analyzer, analyzer alone, meter alone: one of the two cannot be compared, and says
    so.
    """
    first, second, third = shown((METER, ANALYZER), (ANALYZER,), (METER,))
    assert (first[0], second[0], third[0]) == (1.9, 1.9, None)
    assert (
        third[2][-1]
        == "efficiency is not compared: grade meter of system against grade analyzer of system"
    )


def test_the_most_direct_watts_of_the_system_are_taken() -> None:
    """A counter of one package beside a meter of the whole machine says little."""
    assert [each.name for each in group_widest_energies((COUNTER, METER, ANALYZER)).values()] == [
        "analyzer",
        "meter",
        "rapl:package0",
    ]
    assert shown((COUNTER, METER), (COUNTER,))[0][:2] == (8.0, "samples/s/W (counter, package0)")


def test_parts_that_nobody_added_have_no_efficiency() -> None:
    """A meter of one GPU beside a counter of the package: neither is what the machine drew."""
    assert shown((replace(METER, scope=("gpu0",)), COUNTER))[0][0] is None


def test_a_rough_energy_is_told_beside_the_efficiency() -> None:
    """An error of up to 300 J in 1,000 J: the efficiency may be off by a third."""
    first, other = shown((METER,), (replace(METER, edge_j=300.0),))
    assert (first[2], other[2][-1]) == ((), "its energy: 1,000.0 J, +-300 J at the edges")


@pytest.mark.parametrize(
    ("change", "unit"),
    [
        ({"per_token_j": 0.05}, "tokens/s/W"),
        ({"mj_per_query": 7.5}, "mJ/query"),
        ({"samples_per_s_per_w": None}, "kJ per training"),
    ],
)
def test_streams_are_told_per_query_and_training_in_kilojoules(
    change: dict[str, float | None], unit: str
) -> None:
    energy = (replace(METER, **change),)  # type: ignore[arg-type]
    found = compute_watt_figure(energy, choose_common_energy_kind(energy, ()))
    assert found and found.unit == f"{unit} (meter, system)"


@pytest.mark.parametrize(
    ("one", "other", "sentence"),
    [
        (
            (METER,),
            (COUNTER,),
            "efficiency is not compared: grade counter of package0 against grade meter of system",
        ),
        (
            (METER,),
            (replace(METER, scope=("module",)),),
            "efficiency is not compared: grade meter of module against grade meter of system",
        ),
        ((METER,), (), "efficiency is not compared: one side has no energy"),
        ((), (METER,), "efficiency is not compared: one side has no energy"),
        ((METER,), (METER,), None),
        ((), (), None),
    ],
    ids=["grades", "scopes", "one side", "baseline", "alike", "none"],
)
def test_two_kinds_of_watts_are_never_compared(
    one: Energies, other: Energies, sentence: str | None
) -> None:
    """One card's 52 images/s/W by its sensor and 28 by its design power: a factor of two by the
    measure alone.
    """
    assert explain_energy_mismatch(one, other, choose_common_energy_kind(one, [other])) == sentence
    assert (shown(one, other)[1][0] is None) is (sentence is not None or not one)
