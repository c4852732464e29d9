"""Quality lost over speed gained: a system is off the front only where a test says so."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from submissions.report.drawing.svg import draw_chart
from submissions.report.page import build_chart_numbers
from submissions.report.sections.studies.precision import (
    TIED_MARK,
    build_quality_chart,
    build_quality_table,
)
from submissions.tradeoff.quality import (
    FrontPlace,
    QualityFront,
    build_quality_fronts,
)
from suite.measurement.score_limits import ScoreLimits
from suite.studies.answered_set import AnsweredSet, build_answered_set
from suite.studies.documents import StudyMachine
from suite.studies.measured import MeasuredStudy
from suite.studies.points import MeasuredRun, StudiedPoint
from suite.studies.precision import PRECISION
from suite.studies.precision_rows import (
    NO_FIGURES,
    PRECISION_RUNS,
    Measured,
    PrecisionFigures,
    PrecisionPoint,
    PrecisionRequest,
)
from suite.studies.records import StudyRecord
from workloads.resnet50.scoring import pack_class_answer, write_image_labels

PICTURES = 200
STEADY = (1.0, 1.01, 0.99)
"""Rates of three runs, relative to one another."""
NO_MACHINE = StudyMachine(processor="", processors=None, packages={}, commands=())
UNSTEADY = (1.0, 1.6, 0.6)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    """Pictures whose labels are the last digits of their numbers."""
    write_image_labels(tmp_path, [number % 10 for number in range(PICTURES)])
    return tmp_path


def answer_pictures(truth: Path, wrong: int) -> AnsweredSet:
    """Answer all pictures right but the first ones."""
    answers = {
        sample: pack_class_answer([(sample + (sample < wrong)) % 10]) for sample in range(PICTURES)
    }
    return build_answered_set("resnet50", "smoke", truth, answers)


def measure_system(
    answered: AnsweredSet,
    engine: str,
    rate: float,
    *,
    wrong: int,
    runs: Sequence[float] = (1.0,),
    precision: str = "fp32",
    faults: tuple[str, ...] = (),
) -> list[Measured]:
    """Return the points of one system's runs."""
    found: dict[str, list[PrecisionFigures]] = {
        "accuracy": [
            replace(
                NO_FIGURES,
                scores={"top1": 1 - wrong / PICTURES},
                answers=answered,
                faults=faults,
            )
        ],
        "offline": [replace(NO_FIGURES, samples_per_second=rate * each) for each in runs],
        "single-stream": [replace(NO_FIGURES, p50_ns=1.0, p90_ns=1.0, p99_ns=1.0) for _ in runs],
    }
    assert found.keys() == PRECISION_RUNS.keys()
    points = []
    for name, figures in found.items():
        point = PrecisionPoint(engine=engine, precision=precision, run=name)
        measured = tuple(
            MeasuredRun(folder="", number=1, point=point, repeat=repeat, seconds=1.0, figures=each)
            for repeat, each in enumerate(figures, 1)
        )
        together = PRECISION.combine_figures(figures)
        points.append(StudiedPoint(point=point, runs=measured, figures=together))
    return points


def build_front(truth: Path, *systems: tuple[str, float, int, Sequence[float]]) -> QualityFront:
    """Compare systems: name, rate, wrong answers and the rates of the runs."""
    points = [
        point
        for name, rate, wrong, runs in systems
        for point in measure_system(
            answer_pictures(truth, wrong), name, rate, wrong=wrong, runs=runs
        )
    ]
    return build_study_front(points)


def build_study_front(points: Sequence[Measured]) -> QualityFront:
    """Build the figure of a study with these points."""
    systems = dict.fromkeys(each.point.system for each in points)
    request = PrecisionRequest(
        systems=tuple(systems),
        score_limits=ScoreLimits(reference={}, share=0.99),
        conditions={},
        settings={},
    )
    study = MeasuredStudy(
        kind=PRECISION,
        record=StudyRecord(kind="precision", origin="", requests=(), runs=(), machine=NO_MACHINE),
        requests=((request, 1),),
        points=PRECISION.arrange_rows([request], points),
        answer=PRECISION.compute_answer([request], points),
        is_finished=True,
        first=None,
    )
    (front,) = build_quality_fronts(study)
    return front


def find_places(front: QualityFront) -> dict[str, FrontPlace]:
    """Return the place of each engine."""
    return {each.row.point.engine: each.place for each in front.points}


def test_one_run_of_each_puts_nobody_off_the_front(truth: Path) -> None:
    """Equal answers at another speed: one measurement of a speed tests nothing."""
    front = build_front(truth, ("torch", 100.0, 0, (1.0,)), ("fast", 200.0, 0, (1.0,)))
    assert find_places(front) == {"torch": FrontPlace.NEAR, "fast": FrontPlace.FRONT}
    assert [each.speed_interval for each in front.points] == [None, None]
    assert [each.is_tied for each in front.points] == [False, True]


@pytest.mark.parametrize(("runs", "place"), [(STEADY, FrontPlace.OFF), (UNSTEADY, FrontPlace.NEAR)])
def test_repeats_decide_about_speed(truth: Path, runs: Sequence[float], place: FrontPlace) -> None:
    front = build_front(truth, ("torch", 100.0, 0, runs), ("fast", 200.0, 0, runs))
    assert find_places(front)["torch"] is place
    found = next(each for each in front.points if each.name == "fast fp32").speed_interval
    assert found is not None and found.low < 2.0 < found.high
    slow = front.points[0]
    assert ("fast fp32 is as good, and faster (Welch" in slow.reason) == (place is FrontPlace.OFF)


@pytest.mark.parametrize(("wrong", "place"), [(20, FrontPlace.OFF), (3, FrontPlace.NEAR)])
def test_a_paired_test_decides_about_quality(truth: Path, wrong: int, place: FrontPlace) -> None:
    """Between the two systems themselves, not by the intervals to the reference."""
    front = build_front(
        truth,
        ("torch", 100.0, 0, (1.0,)),
        ("good", 300.0, 1, (1.0,)),
        ("poor", 200.0, wrong + 1, (1.0,)),
    )
    assert find_places(front)["poor"] is place
    poor = next(each for each in front.points if each.name == "poor fp32")
    assert ("good fp32 is as fast, and better (McNemar p" in poor.reason) == (
        place is FrontPlace.OFF
    )


def test_who_is_neither_as_fast_nor_as_good_is_on_the_front(truth: Path) -> None:
    front = build_front(
        truth, ("torch", 100.0, 0, STEADY), ("int8", 400.0, 30, STEADY), ("mid", 200.0, 15, STEADY)
    )
    assert set(find_places(front).values()) == {FrontPlace.FRONT}
    assert [each.lost for each in front.points] == pytest.approx([0.0, 0.075, 0.15])
    found = front.points[2].lost_interval
    assert found is not None and 0.09 < found.low < 0.15 < found.high < 0.21


def test_who_is_not_compliant_puts_nobody_off_the_front(truth: Path) -> None:
    """A server that answers nothing right is the fastest."""
    honest = measure_system(answer_pictures(truth, 0), "torch", 100.0, wrong=0, runs=STEADY)
    void = measure_system(
        answer_pictures(truth, 0), "void", 900.0, wrong=0, runs=STEADY, faults=("too low",)
    )
    front = build_study_front([*honest, *void])
    assert find_places(front) == {"torch": FrontPlace.FRONT, "void": FrontPlace.BROKEN}
    assert front.list_placed(FrontPlace.BROKEN)[0].reason == "too low"


def test_the_picture_has_each_system_once_with_its_intervals(truth: Path) -> None:
    front = build_front(
        truth, ("torch", 100.0, 0, STEADY), ("fast", 200.0, 0, STEADY), ("int8", 400.0, 30, STEADY)
    )
    chart = build_quality_chart(front, "toy")
    named = {
        name: at for line in chart.lines for name, at in zip(line.names, line.points, strict=True)
    }
    assert named == {
        "torch fp32": (1.0, 0.0),
        f"fast fp32 {TIED_MARK}": (2.0, 0.0),
        "int8 fp32": (4.0, pytest.approx(15.0)),
    }
    assert [line.name for line in chart.lines] == ["Pareto front", FrontPlace.OFF]
    assert all(f">{name}</text>" in draw_chart(chart) for name in named)
    numbers = build_chart_numbers(chart)
    assert numbers["columns"][:2] == ["point", "line"] and len(numbers["rows"]) == 3
    assert "on the front 2: int8 fp32, speed x 4, +0.1500 lost; fast" in chart.description
    table = build_quality_table(front)
    assert [row[5] for row in table.rows] == ["the reference", "not separable", "separable"]
    assert table.rows[0][-1].startswith("off the front: fast fp32 is as good, and faster (Welch")
