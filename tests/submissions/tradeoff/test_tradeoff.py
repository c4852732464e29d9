"""Throughput against latency: the front is what no other point dominates, what does not count is no
point, and page, JSON and CSV have the same numbers.
"""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from submissions.commands.report import report
from submissions.compare.per_unit import FigureBasis, FigureRequest, parse_figure_request
from submissions.report.document import Chart
from submissions.report.drawing.svg import LEFT, RIGHT, draw_chart, iterate_held_corners
from submissions.report.sections.tradeoff import (
    MAX_NAMED_SERIES,
    build_tradeoff_chart,
    build_tradeoff_section,
)
from submissions.tradeoff.exports import format_tradeoff_csv
from submissions.tradeoff.figures import Tradeoff, build_tradeoffs
from submissions.tradeoff.point_columns import SHOWN_TABLE
from submissions.tradeoff.points import MeasuredPoint, iterate_study_points
from suite.errors import JudgedError, RequestError
from suite.records import EnergyRecord
from suite.result import Machine
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.sweep import list_sweep_rows

BASE = Path(__file__).parents[2] / "examples" / "base"
PRICES = """currency = "EUR"
date = "2026-11-01"
[[system]]
match = "box*"
hourly = { value = 7.2, source = "a test" }
"""


def point(rate: float, latency_ms: float, **changes: Any) -> MeasuredPoint:
    facts: dict[str, Any] = {
        "group": ("resnet50", "smoke"),
        "source": "a",
        "system": "box",
        "machine": Machine(accelerators=2),
        "hardware": "2 x GPU",
        "engine": "torch",
        "precision": "fp32",
        "batch": 1,
        "rate": rate,
        "rate_unit": "samples/s",
        "low": rate * 0.9,
        "high": rate * 1.1,
        "latency_ms": latency_ms,
        "latency": "mean latency of a query",
        "priced_names": ("box-torch-fp32",),
    }
    return MeasuredPoint(**facts | changes)


def only(points: list[MeasuredPoint], request: FigureRequest | None = None) -> Tradeoff:
    (found,) = build_tradeoffs(points, request)
    return found


def watts(average_w: float, grade: str = "meter") -> tuple[EnergyRecord, ...]:
    return (
        EnergyRecord(
            name="meter",
            source="meter",
            grade=grade,
            scope=("system",),
            within=(),
            joules=1.0,
            average_w=average_w,
            edge_j=0.0,
            readings=9,
            longest_gap_ms=1,
            mlperf_mean_w=None,
            per_sample_j=None,
            samples_per_s_per_w=None,
            mj_per_query=None,
        ),
    )


def test_the_front_is_what_no_other_point_dominates() -> None:
    found = only(
        [point(100, 10), point(50, 5), point(90, 10), point(60, 7), point(55, 8), point(100, 12)]
    )
    assert [(each.value, each.latency_ms) for each in found.points if each.front] == [
        (50, 5),
        (60, 7),
        (100, 10),
    ]


@pytest.mark.parametrize(("half", "told"), [(None, "no"), (2.0, "no"), (6.0, "not separable")])
def test_a_point_within_both_intervals_is_not_called_slower(half: float | None, told: str) -> None:
    """A slower batch beside the front may be as fast."""
    measured = [
        point(rate, at, low=half and rate - half, high=half and rate + half)
        for rate, at in ((100.0, 1.0), (90.0, 2.0))
    ]
    found = only(measured).points
    assert [each.front for each in found] == [True, False]
    (_, *rows) = SHOWN_TABLE.list_told_rows(found)
    assert [row[-1] for row in rows] == ["yes", told]


def test_equal_points_are_both_on_the_front() -> None:
    found = only([point(50, 5), point(50, 5, system="other")])
    assert [each.front for each in found.points] == [True, True]


def test_what_differs_in_subject_profile_unit_or_latency_is_another_figure() -> None:
    first = point(1, 1)
    others = [
        replace(first, group=("gnmt", "smoke")),
        replace(first, group=("resnet50", "full")),
        replace(first, rate_unit="tokens/s"),
        replace(first, latency="p90 of SingleStream"),
    ]
    assert len(build_tradeoffs([first, *others])) == 5


def test_a_broken_point_is_named_and_never_drawn() -> None:
    found = only([point(50, 5), point(900, 1, system="broken box", compliant=False)])
    assert [each.system for each in found.points] == ["box"] and found.points[0].front
    assert found.left_out == ("1 point of broken box: not compliant: not drawn",)


def test_per_accelerator_divides_value_and_interval() -> None:
    (shown,) = only([point(50, 5)], FigureRequest(basis=FigureBasis.ACCELERATOR)).points
    assert (shown.value, shown.rate, shown.value_unit) == (25, 50, "samples/s per accelerator")
    assert (shown.low, shown.high) == (22.5, pytest.approx(27.5))


@pytest.mark.parametrize("count", [0, None])
def test_a_machine_without_accelerators_has_no_point_per_accelerator(count: int | None) -> None:
    alone = point(50, 5, machine=Machine(accelerators=count))
    found = only([alone], FigureRequest(basis=FigureBasis.ACCELERATOR))
    assert found.points == () and "no accelerators" in found.left_out[0]


def test_per_watt_takes_watts_of_one_kind_only() -> None:
    found = only(
        [
            point(50, 5, energy=watts(10)),
            point(80, 6, energy=watts(20)),
            point(900, 1, energy=watts(1, "sensor"), system="other"),
            point(900, 1, system="nothing read"),
        ],
        FigureRequest(basis=FigureBasis.WATT),
    )
    assert [each.value for each in found.points] == [5, 4]
    assert [each.front for each in found.points] == [True, False]
    assert found.inputs == "grade meter of system"
    assert found.left_out == (
        "2 points of other, nothing read: no power of the same kind was measured",
    )


def test_per_dollar_needs_a_price_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES, "utf-8")
    request = parse_figure_request("dollar", tmp_path / "prices.toml")
    found = only([point(50, 5), point(60, 6, priced_names=("rack",), system="rack")], request)
    (shown,) = found.points
    assert (shown.value, shown.value_unit) == (pytest.approx(50 * 3600 / 7.2), "samples per EUR")
    assert found.left_out == ("1 point of rack: no price fits the system",)
    assert "prices in EUR of 2026-11-01" in found.inputs


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for per, prices, told in (
        ("dollar", None, "--per dollar needs --prices FILE"),
        ("watt", tmp_path / "p.toml", "--prices requires --per dollar"),
        (None, tmp_path / "p.toml", "--prices requires --per dollar"),
    ):
        with pytest.raises(RequestError) as caught:
            parse_figure_request(per, prices)
        assert str(caught.value) == told


def test_the_step_line_holds_from_each_point_to_the_next() -> None:
    places = [(LEFT + 10.0, 100.0), (LEFT + 50.0, 60.0)]
    assert list(iterate_held_corners(places)) == [
        (LEFT + 10.0, 100.0),
        (LEFT + 50.0, 100.0),
        (LEFT + 50.0, 60.0),
        (RIGHT, 60.0),
    ]


def chart(points: list[MeasuredPoint]) -> Chart:
    return build_tradeoff_chart(only(points), 1)


def test_the_front_is_drawn_on_top_with_a_ring_around_each_point() -> None:
    drawn = chart([point(50, 5), point(60, 7, batch=2), point(10, 9, engine="onnxruntime")])
    assert [line.name for line in drawn.lines] == ["torch fp32", "onnxruntime fp32", "Pareto front"]
    assert drawn.lines[-1].points == ((5, 50), (7, 60)) and drawn.lines[-1].holds
    assert draw_chart(drawn).count('r="6.5"') == 2


def test_two_hundred_systems_have_room() -> None:
    """Those of the front have names; the others are rings, and all are in the table."""
    points = [point(100 + number, 300 - number, system=f"box {number}") for number in range(200)]
    found = only(points)
    drawn = build_tradeoff_chart(found, 1)
    assert len(drawn.lines) == MAX_NAMED_SERIES + 2
    assert drawn.lines[0].name == "box 199 torch fp32"
    assert drawn.lines[-2].name == f"{200 - MAX_NAMED_SERIES} others"
    assert sum(len(line.points) for line in drawn.lines[:-1]) == 200
    section = build_tradeoff_section([found])
    assert section and len(section.parts[0].tables[0].rows) == 200


def test_an_own_system_that_names_its_engine_is_named_once() -> None:
    drawn = chart([point(1, 1, system="2c-torch-fp32"), point(2, 2, system="4c-torch-fp32")])
    assert drawn.lines[0].name == "2c-torch-fp32"


def test_far_apart_rates_are_on_a_logarithmic_axis() -> None:
    assert chart([point(1, 1), point(30, 2)]).y.log
    assert not chart([point(1, 1), point(10, 2)]).y.log


def read_study() -> MeasuredStudy:
    (folder,) = (BASE / "study" / "studies").iterdir()
    return read_measured_study(folder)


def test_the_rows_of_a_sweep_are_points_and_one_without_a_rate_is_none(tmp_path: Path) -> None:
    study = read_study()
    points = list(iterate_study_points(tmp_path, study, []))
    assert [(each.batch, each.rate) for each in points] == [
        (row.batch, row.samples_per_second)
        for row in list_sweep_rows(study)
        if row.samples_per_second
    ]
    assert points[0].hardware == "1 x AMD EPYC"


def run(*words: object) -> str:
    return str(
        CliRunner()
        .invoke(report, [*map(str, words)], catch_exceptions=False, standalone_mode=False)
        .stdout
    )


def test_page_json_and_csv_have_the_same_points(tmp_path: Path) -> None:
    """Of two copies of one study, which is all that makes a figure of a study of one point."""
    (study,) = (BASE / "study" / "studies").iterdir()
    document = json.loads(run(study, "--format", "json"))
    (found,) = document["tradeoffs"]
    rows = list(csv.DictReader(io.StringIO(run(study, "--format", "csv"))))
    assert len(rows) == len(found["points"]) == 1
    for row, each in zip(rows, found["points"], strict=True):
        assert list(row) == list(each)
        assert row == {key: "" if value is None else str(value) for key, value in each.items()}
    (section,) = [each for each in document["sections"] if each["id"] == "tradeoff"]
    (part,) = section["parts"]
    assert part["charts"] == [], "one point is no figure"
    assert "952.61 samples/s" in part["notes"][0]["text"]


def test_a_study_that_the_judge_refuses_has_no_point(tmp_path: Path) -> None:
    shutil.copytree(BASE / "study", tmp_path / "results")
    (table,) = tmp_path.glob("results/studies/*/study.json")
    next(table.parent.glob("*/batch-8/queries.npy")).unlink()
    result = CliRunner().invoke(report, [str(table.parent), "--format", "json"])
    (found,) = json.loads(result.stdout)["tradeoffs"]
    assert found["points"] == [] and "not compliant" in found["left_out"][0]
    with pytest.raises(RequestError, match="--format csv: 1 point of .*: not compliant"):
        run(table.parent, "--format", "csv")


@pytest.mark.parametrize("words", [("--format", "csv"), ("--per", "accelerator")])
def test_results_without_points_are_refused_in_one_sentence(words: tuple[str, str]) -> None:
    with pytest.raises(RequestError, match="throughput against latency needs a sweep") as caught:
        run(BASE / "tree", *words)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, JudgedError)


def test_a_name_cannot_add_a_cell_or_a_line() -> None:
    text = format_tradeoff_csv([only([point(1, 1, system='a,"b\u202e\nc')])])
    (row,) = csv.DictReader(io.StringIO(text))
    assert "\n" not in row["system"] and "\u202e" not in row["system"]
