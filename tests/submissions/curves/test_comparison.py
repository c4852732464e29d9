"""Two curves beside each other: steps without interpolation, who is ahead where, and when nothing
may be said.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from compliance.results.curves import ScoredCurve
from submissions.curves.comparison import (
    RatioRange,
    compare_curves,
    compare_with_baselines,
    find_best_figure,
    get_system_tps,
    is_clearly_dominated,
    is_dominated_point,
    iterate_unpaired_curves,
    select_fast_points,
    select_first_curves,
    select_front_points,
)
from submissions.curves.tables import (
    format_curve_conclusion,
    iterate_comparison_lines,
    iterate_comparison_tables,
)
from suite.measurement.intervals import Interval
from suite.result import Machine, ScoredPoint

Curves = Callable[..., ScoredCurve]
Points = Callable[..., ScoredPoint]


def test_a_curve_is_a_step_function(curve_of: Curves) -> None:
    """Interpolated, it would promise rates at which nobody measured."""
    points = curve_of((1, 10.0, 100.0), (8, 50.0, 40.0), (64, 90.0, 10.0)).points
    found = [
        find_best_figure(select_fast_points(points, speed), get_system_tps)
        for speed in (5, 10, 10.1, 40, 99, 101)
    ]
    assert found == [90.0, 90.0, 50.0, 50.0, 10.0, None]


def test_a_slower_point_never_hides_a_faster_one(curve_of: Curves) -> None:
    curve = curve_of((1, 10.0, 100.0), (8, 50.0, 40.0), (16, 45.0, 30.0))
    assert find_best_figure(select_fast_points(curve.points, 25.0), get_system_tps) == 50.0
    assert [each.concurrency for each in select_front_points(curve)] == [8, 1]


def test_a_curve_that_is_nowhere_behind_dominates(curve_of: Curves) -> None:
    low, high = (curve_of((1, 10.0 * f, 100.0), (8, 50.0 * f, 40.0)) for f in (1, 2))
    assert compare_curves(low, high).verdict == "B dominates"
    assert compare_curves(high, low).verdict == "A dominates"
    assert compare_curves(low, low).verdict == "equal"


def test_a_curve_that_reaches_further_is_ahead_there(curve_of: Curves) -> None:
    """Where one has no point that is fast enough, there is no ratio, but a leader."""
    found = compare_curves(curve_of((1, 10.0, 50.0)), curve_of((1, 10.0, 80.0)))
    assert found.verdict == "B dominates"
    assert [(each.tps_per_user, each.first_tps, each.ratio) for each in found.steps] == [
        (50.0, 10.0, 1.0),
        (80.0, None, None),
    ]


def test_every_crossing_is_named(curve_of: Curves) -> None:
    first = curve_of((1, 10.0, 100.0), (8, 50.0, 40.0), (64, 90.0, 10.0))
    other = curve_of((1, 12.0, 100.0), (8, 40.0, 40.0), (64, 95.0, 10.0))
    found = compare_curves(first, other)
    assert found.verdict == "cross at x = 10, 40"
    assert [(each.tps_per_user, each.below, each.above) for each in found.crossings] == [
        (10.0, "B", "A"),
        (40.0, "A", "B"),
    ]


def test_equal_steps_between_do_not_hide_a_crossing(curve_of: Curves) -> None:
    first = curve_of((1, 10.0, 100.0), (8, 50.0, 40.0), (64, 90.0, 10.0))
    other = curve_of((1, 12.0, 100.0), (8, 50.0, 40.0), (64, 80.0, 10.0))
    assert compare_curves(first, other).verdict == "cross at x = 10"


def test_a_gap_without_a_leader_is_told(curve_of: Curves) -> None:
    """`B above` would claim a lead in the gap."""
    first = curve_of((1, 10.0, 100.0), (8, 50.0, 40.0), (64, 90.0, 10.0))
    other = curve_of((1, 12.0, 100.0), (8, 50.0, 40.0), (64, 80.0, 10.0))
    (crossing,) = compare_curves(first, other).crossings
    assert (crossing.tps_per_user, crossing.ahead_from) == (10.0, 100.0)
    lines = [*iterate_comparison_lines(compare_curves(first, other))]
    assert "A is ahead up to 10 tokens/s per user, B from 100 on" in lines


def repeat(curve: ScoredCurve, **halves: float) -> ScoredCurve:
    """The curve with intervals: half of each, by figure."""
    points = [
        replace(
            each,
            intervals={
                name: Interval(low=getattr(each, name) - half, high=getattr(each, name) + half)
                for name, half in halves.items()
            },
        )
        for each in curve.points
    ]
    return replace(curve, points=tuple(points), runs=3)


@pytest.mark.parametrize(
    ("half", "verdict", "ahead"),
    [(4.0, "B dominates", ["B", "B"]), (6.0, "not separable", ["", ""])],
)
def test_no_lead_is_claimed_within_both_intervals(
    curve_of: Curves, half: float, verdict: str, ahead: list[str]
) -> None:
    """Two measurements of one system would always have a winner."""
    low, high = (
        repeat(curve_of((1, 50.0 + more, 100.0), (8, 90.0 + more, 40.0)), system_tps=half)
        for more in (0.0, 10.0)
    )
    found = compare_curves(low, high)
    assert found.verdict == verdict
    assert [each.ahead for each in found.steps] == ahead == [each.ahead for each in found.matched]


@pytest.mark.parametrize(("half", "verdict"), [(1.0, "B dominates"), (20.0, "not separable")])
def test_a_curve_may_reach_as_far_as_its_interval(
    curve_of: Curves, half: float, verdict: str
) -> None:
    """A speed per user is measured, too: 79 instead of 80 tokens/s would be a defeat."""
    first, other = (
        repeat(curve_of((1, 10.0, speed)), system_tps=1.0, tps_per_user=half)
        for speed in (70.0, 80.0)
    )
    assert compare_curves(first, other).verdict == verdict


def test_one_run_on_one_side_is_not_tested(curve_of: Curves) -> None:
    first, other = curve_of((1, 10.0, 50.0)), repeat(curve_of((1, 20.0, 50.0)), system_tps=1.0)
    told = "\n".join(iterate_comparison_lines(compare_curves(first, other)))
    assert "A has 1 run per point: not tested" in told
    tables = [table for table, _ in iterate_comparison_tables(compare_curves(first, other))]
    (_, row) = tables[0].list_told_rows(compare_curves(first, other).steps)
    assert row == ("50", "10", "20.0 \u00b11.0", "(2.00)")


def test_a_point_within_the_interval_of_the_curve_is_not_called_dominated(
    curve_of: Curves,
) -> None:
    curve = curve_of((64, 100.0, 10.0), (128, 99.0, 5.0))
    fast, slow = curve.points
    assert is_dominated_point(slow, fast) and is_clearly_dominated(slow, fast)
    fast, slow = repeat(curve, system_tps=2.0).points
    assert is_dominated_point(slow, fast) and not is_clearly_dominated(slow, fast)


def test_only_fixed_points_that_the_judge_accepts_count(curve_of: Curves, point_of: Points) -> None:
    offline = point_of(4388, 999.0, 500.0, region="offline", offline="dedicated")
    broken = point_of(64, 900.0, 90.0, compliant=False, failed_rules=("endpoints.derived",))
    curve = curve_of((8, 50.0, 40.0), offline, broken, compliant=False)
    found = compare_curves(curve_of((8, 50.0, 40.0)), curve)
    assert found.verdict == "equal"
    assert "B: left out: r64, which breaks endpoints.derived" in found.notes


def test_equal_concurrencies_are_rows_of_their_own(curve_of: Curves) -> None:
    first = curve_of((64, 90.0, 10.0), (8, 50.0, 40.0), (1, 10.0, 100.0))
    other = curve_of((8, 60.0, 39.0), (16, 70.0, 30.0), (64, 180.0, 9.0))
    rows = compare_curves(first, other).matched
    assert [(each.concurrency, each.ratio) for each in rows] == [(8, 1.2), (64, 2.0)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "gpt-oss-120b"}, "model: deepseek-r1, not gpt-oss-120b"),
        ({"data_set": "other"}, "data set: deepseek_r1, not other"),
        ({"data_set": ""}, "data set: deepseek_r1, not unknown"),
        ({"round": "endpoints-v2.0"}, "rules: endpoints-v1.0, not endpoints-v2.0"),
        ({"division": "RDI"}, "division: Standardized, not RDI"),
        ({"tokenizer": "b/other"}, "tokens: counted with a/own, not with b/other"),
        ({"tokenizer": "b/own"}, "tokens: counted with a/own, not with b/own"),
    ],
)
def test_what_must_be_equal_is_named(
    curve_of: Curves, changes: dict[str, Any], reason: str
) -> None:
    first = curve_of((8, 50.0, 40.0), tokenizer="a/own")
    found = compare_curves(first, curve_of((8, 50.0, 40.0), **changes))
    assert (found.verdict, found.reasons) == ("not comparable", (reason,))
    assert (found.steps, found.matched, found.crossings) == ((), (), ())


def test_spellings_of_a_model_are_one_model(curve_of: Curves) -> None:
    first, other = (
        curve_of((8, 50.0, 40.0), model=each) for each in ("llama3_1-8b", "Llama3.1-8B")
    )
    assert compare_curves(first, other).verdict == "equal"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"dataset": "cnn/daily"}, "data set, as disclosed: deepseek-r1 and cnn/daily"),
        ({"tokenizer": "/models/own"}, "tokenizer: a/own and /models/own"),
    ],
)
def test_free_text_and_folders_are_notes(
    curve_of: Curves, changes: dict[str, Any], note: str
) -> None:
    first = curve_of((8, 50.0, 40.0), tokenizer="a/own")
    found = compare_curves(first, curve_of((8, 50.0, 40.0), **({"tokenizer": "A/Own"} | changes)))
    assert (found.verdict, found.notes) == ("equal", (note,))


def test_official_figures_of_another_time_do_not_compare(
    curve_of: Curves, point_of: Points
) -> None:
    steady = curve_of(point_of(8, 50.0, 40.0, declared_basis="steady_state"))
    whole = curve_of((8, 50.0, 40.0))
    assert compare_curves(steady, whole).reasons == (
        "basis of the official figures: steady_state, not whole_run",
    )
    mixed = curve_of((1, 10.0, 90.0), point_of(8, 50.0, 40.0, declared_basis="steady_state"))
    assert compare_curves(mixed, whole).reasons == ()


def test_systems_of_different_size_compare_per_unit_too(curve_of: Curves, point_of: Points) -> None:
    """Twice the machine is twice the rate, and no faster."""
    large = Machine(accelerator="Chip", accelerators=16, nodes=2)
    other = curve_of(point_of(8, 100.0, 40.0, tps_per_kw=5.0), machine=large, kw=20.0)
    [step] = compare_curves(curve_of((8, 50.0, 40.0)), other).steps
    assert (step.ratio, step.per_kw_ratio, step.per_accelerator_ratio) == (2.0, 1.0, 1.0)
    found = compare_curves(curve_of((8, 50.0, 40.0)), other)
    once = RatioRange(peak=1.0, lowest=1.0, highest=1.0)
    assert (found.equal_size, found.per_accelerator, found.per_kw) == (False, once, once)
    sizes = "box (8 accelerators, 10 kW) and box (16 accelerators, 20 kW)"
    factors = "per accelerator B/A is (1.00); per kW B/A is (1.00)"
    assert found.notes == (f"systems of different size: {sizes}; {factors}",)
    assert format_curve_conclusion(found) == "B dominates, as whole systems of different size"
    assert [*iterate_comparison_lines(found)][-1] == found.notes[-1]


def test_a_factor_that_changes_with_the_speed_is_a_range(
    curve_of: Curves, point_of: Points
) -> None:
    large = Machine(accelerator="Chip", accelerators=16, nodes=2)
    points = [point_of(*each, tps_per_kw=None) for each in ((1, 10.0, 90.0), (8, 100.0, 40.0))]
    found = compare_curves(
        curve_of((1, 10.0, 90.0), (8, 50.0, 40.0)), curve_of(*points, machine=large, kw=None)
    )
    assert found.per_accelerator == RatioRange(peak=1.0, lowest=0.5, highest=1.0)
    assert found.per_kw is None
    factor = "; per accelerator B/A is (1.00) at the peaks, (0.50) to (1.00) over all"
    assert found.notes[-1].endswith(factor)


def test_systems_of_one_size_have_a_bare_verdict(curve_of: Curves) -> None:
    found = compare_curves(curve_of((8, 50.0, 40.0)), curve_of((8, 60.0, 40.0)))
    assert (format_curve_conclusion(found), found.notes) == ("B dominates", ())


def test_systems_of_unknown_size_are_called_so(curve_of: Curves) -> None:
    unknown = curve_of((8, 50.0, 40.0), machine=Machine(), kw=None)
    [note] = compare_curves(curve_of((8, 50.0, 40.0)), unknown).notes
    assert note.startswith("the descriptions do not say how large the systems are")


def test_each_curve_is_compared_with_that_of_its_model(curve_of: Curves) -> None:
    names = ("deepseek-r1", "gpt-oss-120b")
    base = [curve_of((8, 50.0, 40.0), model=each) for each in names]
    others = [curve_of((8, 60.0, 40.0), model=each) for each in reversed(names)]
    found = compare_with_baselines([*base, *others], base)
    assert [each.first.model for each in found] == ["gpt-oss-120b", "deepseek-r1"]
    [alone] = compare_with_baselines([base[0], others[0]], base[:1])
    assert alone.verdict == "not comparable"


def list_pairs(curves: Sequence[ScoredCurve], base: Sequence[ScoredCurve]) -> list[str]:
    found = compare_with_baselines(curves, base)
    return [
        f"{each.first.path}/{each.first.system} {each.other.path}/{each.other.system}"
        for each in found
    ]


def test_several_systems_of_a_model_are_paired_by_name(curve_of: Curves) -> None:
    """All of them were compared with the first."""
    base = [curve_of((8, 50.0, 40.0), path="a", system=each) for each in ("x", "y", "z")]
    others = [curve_of((8, 60.0, 40.0), path="b", system=each) for each in ("y", "x", "w")]
    assert list_pairs([*base, *others], base) == ["a/y b/y", "a/x b/x"]
    unpaired = [*iterate_unpaired_curves([*base, *others], base)]
    assert [each.partition(",")[0] for each in unpaired] == ["a: z", "b: w"]
    assert "no other curve" in unpaired[0] and "the baseline has other systems" in unpaired[1]


def test_one_system_is_the_baseline_of_all(curve_of: Curves) -> None:
    base = [curve_of((8, 50.0, 40.0), path="a", system="x")]
    others = [curve_of((8, 60.0, 40.0), path="b", system=each) for each in ("y", "x")]
    assert list_pairs([*base, *others], base) == ["a/x b/y", "a/x b/x"]
    assert [*iterate_unpaired_curves([*base, *others], base)] == []


def test_equal_curves_are_told_apart(curve_of: Curves) -> None:
    base = [curve_of((8, 50.0, 40.0), path="a", system=each) for each in ("x", "y")]
    again = [curve_of((8, 50.0, 40.0), path="a", system=each) for each in ("x", "y")]
    assert list_pairs([*base, *again], base) == ["a/x a/x", "a/y a/y"]
    assert [*iterate_unpaired_curves([*base, *again], base)] == []


def test_within_one_path_the_first_of_each_model_is_the_baseline(curve_of: Curves) -> None:
    curves = [
        curve_of((8, 50.0, 40.0), system=system, model=model)
        for system in ("x", "y")
        for model in ("deepseek-r1", "gpt-oss-120b")
    ]
    first = select_first_curves(curves)
    assert [(each.system, each.model) for each in first] == [
        ("x", "deepseek-r1"),
        ("x", "gpt-oss-120b"),
    ]
    assert len(compare_with_baselines(curves, first)) == 2
