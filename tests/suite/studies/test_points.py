"""The walk over a plan, and figures of several runs."""

from dataclasses import asdict, replace

import pytest

from suite.studies.concurrency_curve import CURVE, CurveFigures, CurvePoint, CurveRequest
from suite.studies.points import MeasuredRun, collect_points, walk_plan

REQUEST = CurveRequest(concurrencies=(1, 4), seconds=5.0, is_remote=False)
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


def test_a_point_is_measured_as_often_as_asked_before_the_next() -> None:
    step = walk_plan(CURVE, REQUEST, 3, collect_points(CURVE, [run(1, 1, 100.0)])).step
    assert step is not None and (step.point.concurrency, step.repeat) == (1, 2)


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
