"""The walk over a plan, and figures of several runs."""

from dataclasses import asdict, replace

import pytest

from suite.studies.concurrency_curve import CURVE, CurveFigures, CurvePoint, CurveRequest
from suite.studies.peak import PEAK, PeakFigures, PeakStep
from suite.studies.points import (
    MeasuredRun,
    StudiedPoint,
    collect_points,
    is_separable,
    walk_plan,
)
from suite.studies.rates import PeakRequest

REQUEST = CurveRequest(concurrencies=(1, 4), seconds=5.0, is_remote=False)
PEAK_REQUEST = PeakRequest(
    scenario="Server",
    percentile=99.0,
    bound_ns=50_000_000,
    of_round=True,
    min_queries=4000,
    min_duration_ms=1000,
    tolerance=0.05,
    seen=100.0,
    budget_s=4000.0,
)
FIGURES = CurveFigures(
    answers=10,
    tokens=100,
    duration_s=1.0,
    system_tps=100.0,
    ttft_p90_ms=5.0,
    tpot_p90_ms=2.0,
    tps_per_user=500.0,
    in_flight_mean=1.0,
    passes=1.0,
    loadgen_tps=99.0,
)


def run(
    number: int, concurrency: int, rate: float, repeat: int = 1
) -> MeasuredRun[CurvePoint, CurveFigures]:
    """One run of a curve."""
    return MeasuredRun(
        folder=f"box/in-flight-{concurrency}-{repeat}",
        number=number,
        point=CurvePoint(concurrency=concurrency),
        repeat=repeat,
        seconds=2.0,
        figures=replace(FIGURES, system_tps=rate),
    )


def test_the_plan_goes_on_where_its_points_end() -> None:
    step = walk_plan(CURVE, REQUEST, 1, collect_points(CURVE, [run(1, 1, 100.0)])).step
    assert step is not None and (step.point.concurrency, step.place, step.repeat) == (4, 2, 1)
    both = collect_points(CURVE, [run(1, 4, 300.0), run(2, 1, 100.0)])
    walk = walk_plan(CURVE, REQUEST, 1, both)
    assert walk.step is None and [each.point.concurrency for each in walk.done] == [1, 4]


def test_repeats_are_passes_over_all_points() -> None:
    """A machine that changes with time changes all points of a curve alike."""
    runs, order = list[MeasuredRun[CurvePoint, CurveFigures]](), []
    while step := walk_plan(CURVE, REQUEST, 3, collect_points(CURVE, runs)).step:
        order.append((step.point.concurrency, step.repeat))
        runs.append(run(len(runs) + 1, step.point.concurrency, 100.0, step.repeat))
    assert order == [(1, 1), (4, 1), (1, 2), (4, 2), (1, 3), (4, 3)]
    walk = walk_plan(CURVE, REQUEST, 3, collect_points(CURVE, runs[:3]))
    assert [each.point.concurrency for each in walk.done] == [1, 4]  # all follow from the plan


def test_points_are_separable_beyond_the_interval_of_their_difference() -> None:
    def point(concurrency: int, *rates: float) -> StudiedPoint[CurvePoint, CurveFigures]:
        runs = [run(place, concurrency, rate, place) for place, rate in enumerate(rates, 1)]
        return collect_points(CURVE, runs)[0]

    low, close, high = point(1, 99.0, 101.0), point(4, 100.0, 103.0), point(8, 149.0, 151.0)
    assert is_separable(low, high, "system_tps") is True
    assert is_separable(low, close, "system_tps") is False
    assert is_separable(low, point(4, 500.0), "system_tps") is None
    assert is_separable(low, high, "window_tps") is None
    assert is_separable(point(1, 5.0, 5.0), point(4, 6.0, 6.0), "system_tps") is True


def search(request: PeakRequest, seconds: float = 30.0) -> list[MeasuredRun[PeakStep, PeakFigures]]:
    """A search to its end, whose runs are VALID up to 80 queries/s."""
    runs: list[MeasuredRun[PeakStep, PeakFigures]] = []
    while (step := PEAK.choose_next_point(request, collect_points(PEAK, runs))) is not None:
        runs.append(build_peak_run(step, seconds))
    return runs


def build_peak_run(
    step: PeakStep, seconds: float, repeat: int = 1
) -> MeasuredRun[PeakStep, PeakFigures]:
    """One run of a search."""
    late = 0 if step.rate <= 80.0 else step.queries // 2
    figures = PeakFigures(
        queries=step.queries,
        over=late,
        dispersion=1.0,
        latency_ns=None,
        per_token_ns=None,
        verdict="INVALID" if late else "VALID",
    )
    return MeasuredRun(
        folder=f"box/trial-{step.number:02}-{repeat}",
        number=step.number,
        point=step,
        repeat=repeat,
        seconds=seconds,
        figures=figures,
    )


@pytest.mark.parametrize(("first_s", "then_s"), [(4000.0, 300.0), (300.0, 4000.0)])
def test_a_search_with_another_budget_keeps_what_was_measured(
    first_s: float, then_s: float
) -> None:
    """What is left of a budget turns a probe into a full run, and each run into the last."""
    before, now = (replace(PEAK_REQUEST, budget_s=each) for each in (first_s, then_s))
    points = collect_points(PEAK, search(before))
    alone = walk_plan(PEAK, now, 1, points)
    assert len(alone.done) < len(points) or alone.step is not None
    walk = walk_plan(PEAK, now, 1, points, [before])
    assert list(walk.done) == points
    assert (walk.step is None) is (then_s < first_s)


def test_a_search_that_is_repeated_goes_on_where_its_second_runs_are_missing() -> None:
    """The first runs stay; each point has its second one before the next point."""
    runs = search(PEAK_REQUEST)
    steps = [each.point for each in runs]
    walk = walk_plan(PEAK, PEAK_REQUEST, 2, collect_points(PEAK, runs), [PEAK_REQUEST])
    assert walk.step is not None and (walk.step.point, walk.step.repeat) == (steps[0], 2)
    again = [*runs, build_peak_run(steps[0], 0.0, repeat=2)]
    walk = walk_plan(PEAK, PEAK_REQUEST, 2, collect_points(PEAK, again), [PEAK_REQUEST])
    assert walk.step is not None and (walk.step.point, walk.step.repeat) == (steps[1], 2)


def test_several_runs_have_a_mean_and_an_interval() -> None:
    """By Student's t with one degree of freedom, 12.706 standard errors either way."""
    (point,) = collect_points(CURVE, [run(1, 1, 100.0), run(2, 1, 110.0, repeat=2)])
    assert point.figures.system_tps == 105.0 and point.figures.answers == 10
    assert point.seconds == 4.0 and len(point.runs) == 2
    assert point.find_interval("system_tps") == pytest.approx((105 - 63.531, 105 + 63.531))


def test_one_run_has_no_interval() -> None:
    (point,) = collect_points(CURVE, [run(1, 1, 100.0)])
    assert asdict(point.figures) == asdict(FIGURES)
    assert point.find_interval("system_tps") is None
