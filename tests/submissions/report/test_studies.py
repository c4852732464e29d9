"""The page of a study: curves whose points are the table's, and the judge's verdict beside them."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from submissions.commands.report import report
from submissions.report.document import Tone
from submissions.report.drawing.svg import draw_chart
from submissions.report.page import build_chart_numbers
from submissions.report.sections.studies.speed import build_subject_table
from submissions.report.sections.studies.sweep import build_sweep_section
from suite.records import EnergyRecord
from suite.studies.kind import StudiedRow
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.points import MeasuredRun, StudiedPoint
from suite.studies.speed import SPEED, SpeedFigures, SpeedPoint
from suite.studies.subject import StudySubject
from suite.studies.sweep import ACCURACY, SWEEP, SweepFigures, SweepPoint

BASE = Path(__file__).parents[2] / "examples" / "base"
WATTS = {
    "name": "meter",
    "source": "meter",
    "grade": "meter",
    "scope": ["system"],
    "within": [],
    "joules": 1.0,
    "average_w": 50.0,
    "edge_j": 0.0,
    "readings": 9,
    "longest_gap_ms": 1,
    "mlperf_mean_w": None,
    "per_sample_j": None,
    "samples_per_s_per_w": 2.0,
    "mj_per_query": None,
}


SUBJECT = StudySubject(
    workload="net-1a2b3c4d.onnx",
    profile="smoke",
    checkpoint_sha256="1a2b3c4d" * 8,
    origin="the ONNX file net.onnx",
    engine="onnxruntime",
    precision="fp32",
    framework="onnx",
    device="cpu",
    threads=2,
    system="box",
    version="1",
)


def page(path: Path, form: str, target: Path) -> str:
    found = CliRunner().invoke(
        report, [str(path), "--format", form, "-o", str(target)], catch_exceptions=False
    )
    assert found.exit_code == 0, found.output
    return target.read_text()


@pytest.mark.parametrize("kind", ["study", "peak", "speed", "precision"])
def test_a_study_has_a_page(kind: str, tmp_path: Path) -> None:
    """Of itself, and of a results folder that holds nothing else; every chart is drawn that has more
    than one point.
    """
    (study,) = (BASE / kind / "studies").iterdir()
    document = json.loads(page(study, "json", tmp_path / "r.json"))
    (part,) = document["parts"]
    first = part["sections"][0]
    assert part["tone"] == "good" and first["id"] == f"study-{study.name}" and first["tables"]
    charts = first["charts"]
    assert [chart["title"] for chart in charts] == {
        "study": [],
        "peak": ["Late queries against rate"],
        "speed": [],
        "precision": [],
    }[kind]
    told = " ".join(note["text"] for note in first["notes"])
    assert (kind == "study") == ("952.61 samples/s at batch 8" in told)
    text = page(BASE / kind, "html", tmp_path / "r.html")
    assert text.count('<svg class="chart"') == len(charts)


def change_figures(figures: SweepFigures, point: SweepPoint) -> SweepFigures:
    """Change nothing."""
    return figures


def sweep(
    change: Callable[[SweepFigures, SweepPoint], SweepFigures] = change_figures,
    precisions: Sequence[str] = ("fp32", "int8"),
) -> MeasuredStudy:
    """The example's study, with a second number format, watts and scores."""
    (folder,) = (BASE / "study" / "studies").iterdir()
    made = read_measured_study(folder)
    first = made.points[0]
    watts = msgspec.convert([WATTS], type=tuple[EnergyRecord, ...])
    points = []
    for batch, precision in product((1, 2, 4), precisions):
        point = replace(first.point, batch=batch, precision=precision)
        figures = change(replace(first.figures, energy=watts), point)
        points.append(replace(first, point=point, figures=figures))
    for precision in precisions:
        point = replace(first.point, batch=0, precision=precision, purpose=ACCURACY)
        points.append(replace(first, point=point, figures=SweepFigures(scores={"top1": 0.7})))
    request = replace(made.request, within_ms=7.0)
    return replace(
        made,
        requests=((request, 1),),
        points=SWEEP.arrange_rows([request], points),
        answer=SWEEP.compute_answer([request], points),
    )


@pytest.mark.parametrize(
    ("metric", "value", "told"),
    [
        ("latency_ns", 13_044_600.0, ("latency", "13.04 ms")),
        ("samples_per_second", 65_432.1, ("samples per second", "65,432.1 samples/s")),
        ("tokens_per_second", 1_515.94, ("tokens per second", "1,515.9 tokens/s")),
    ],
)
def test_figures_of_speed_alone_have_their_unit(
    metric: str, value: float, told: tuple[str, str]
) -> None:
    """A latency was 1.304e+07, of nothing."""
    figures = SpeedFigures(
        verdict="VALID", metric=metric, value=value, percentile=90.0, ttft_ns=None, tpot_ns=None
    )
    point = SpeedPoint(scenario="Offline", samples_per_query=1, equal_issue=False)
    run = MeasuredRun(folder="x", number=1, point=point, repeat=1, seconds=1.0, figures=figures)
    studied = StudiedPoint(point=point, runs=(run,), figures=figures)
    row = StudiedRow(studied=studied, request=None, answer=None, subject=SUBJECT)
    assert SPEED.table.list_told_rows([row])[1][2:] == told


def test_curves_have_a_line_for_each_engine_and_number_format() -> None:
    """With the budget as a mark, accuracy against speed where several were scored, efficiency where
    power was read.
    """
    section = build_sweep_section(sweep(), "toy")
    charts = {chart.title: chart for chart in section.charts}
    assert {
        "Throughput against batch size",
        "Efficiency against batch size",
        "Latency against throughput",
        "Accuracy against speed",
    } == set(charts)
    assert [len(line.points) for line in charts["Throughput against batch size"].lines] == [3, 3]
    assert [mark.value for mark in charts["Latency against throughput"].marks] == [7.0]
    assert {
        point[1] for line in charts["Efficiency against batch size"].lines for point in line.points
    } == {2.0}


def test_the_budget_is_drawn_beside_the_latency_that_is_held_against_it() -> None:
    """A point whose mean is below the budget and whose p99 is above would look like one that keeps
    it.
    """
    study = sweep(
        lambda figures, point: replace(
            figures, mean_latency_ns=6e6, p99_ns=9e6 if point.batch == 1 else None
        )
    )
    section = build_sweep_section(study, "toy")
    chart = next(chart for chart in section.charts if chart.title == "Latency against throughput")
    assert [line.name for line in chart.lines] == [
        "torch fp32 mean",
        "torch int8 mean",
        "torch fp32 p99",
        "torch int8 p99",
    ]
    assert (
        [len(line.points) for line in chart.lines] == [3, 3, 1, 1]
        and chart.y.name == "latency"
        and chart.y.log
    )
    said = " ".join(note.text for note in section.notes)
    assert (
        "largest batch within 7 ms: 4 in torch fp32 (952.6 samples/s, mean latency); 4 in torch"
        " int8 (952.6 samples/s, mean latency)" in said
    )


def test_the_page_tells_intervals_watts_with_their_grade_and_an_unfinished_sweep() -> None:
    """An efficiency without the grade of its watts could be taken for a meter's."""
    made = sweep()
    idle = made.points[0].figures.energy
    section = build_sweep_section(replace(made, is_finished=False, idle=idle), "toy")
    (table,) = section.tables
    first = dict(zip(table.columns, table.rows[0], strict=True))
    assert first["W"] == "50.0 meter" and first["samples/s/W"] == "2"
    assert first["samples/s"] == "952.6 \u00b10.2%" and first["score"] == "top1 0.7000"
    assert section.notes[0].tone is Tone.CAUTION and "unfinished" in section.notes[0].text
    assert "idle: 50.0 W (meter, grade meter), not subtracted" in [
        note.text for note in section.notes
    ]


def test_a_figure_s_words_have_no_exponents() -> None:
    """24.67 s are 24,673 ms for whoever reads the page, and a batch is no unit."""
    study = sweep(
        lambda figures, _: replace(
            figures, mean_latency_ns=24_673.17e6, samples_per_second=5.188, p99_ns=None
        ),
        precisions=("fp32",),
    )
    told = {chart.title: chart.description for chart in build_sweep_section(study, "toy").charts}
    assert (
        told["Throughput against batch size"] == "torch fp32: at most 5.188 samples/s, at batch 1."
    )
    assert "at most 24,673 ms, at 5.188 samples/s." in told["Latency against throughput"]


def test_a_study_beside_other_programs_says_so(tmp_path: Path) -> None:
    study = shutil.copytree(BASE / "study", tmp_path / "study")
    points = sorted(study.rglob("telemetry.jsonl"))
    for path in points:
        path.write_text(
            path.read_text()
            .replace('"cpu_own":0.93', '"cpu_own":0.5')
            .replace('"cpu_others":0.01', '"cpu_others":0.46')
        )
    document = json.loads(page(study, "json", tmp_path / "r.json"))
    notes = [note["text"] for note in document["parts"][0]["sections"][0]["notes"]]
    assert notes[0].startswith(f"The machine was disturbed in {len(points)} runs (noise.others)")


def test_the_page_of_a_study_names_processor_packages_and_commands(tmp_path: Path) -> None:
    """It named a system and its threads, of which nobody else knows what they are."""
    document = json.loads(page(BASE / "study", "json", tmp_path / "r.json"))
    tables = {each["title"]: each["rows"] for each in document["parts"][0]["sections"][0]["tables"]}
    assert tables["Machine"] == [["processors", "1 x AMD EPYC"]]
    assert tables["Commands to repeat it"] == [["podium sweep --network toy"]]
    assert tables["Packages"] == [["torch", "2.13.0"]]


def test_engines_and_precisions_have_a_row_each(tmp_path: Path) -> None:
    """The table of podium precision, as the study has it."""
    (study,) = (BASE / "precision" / "studies").iterdir()
    (part,) = json.loads(page(study, "json", tmp_path / "r.json"))["parts"]
    table, *_ = part["sections"][0]["tables"]
    (row,) = table["rows"]
    assert row[:2] == ["torch", "fp32"] and row[-2:] == ["1.00", "yes"] and row[5] == "4.0"
    assert row[2].startswith("top1 ") and len(row) == len(table["columns"])


def test_a_rate_is_drawn_with_its_interval_on_its_own_axis() -> None:
    section = build_sweep_section(sweep(), "toy")
    charts = {chart.title: chart for chart in section.charts}
    row = sweep().points[0].figures
    ends = ((row.low, row.high),) * 3
    (line, _) = charts["Throughput against batch size"].lines
    assert (line.x_intervals, line.y_intervals) == ((), ends)
    (line, _) = charts["Latency against throughput"].lines[:2]
    assert (line.x_intervals, line.y_intervals) == (ends, ())
    assert charts["Efficiency against batch size"].lines[0].y_intervals == ()


def test_error_bars_end_at_the_interval_and_stand_in_the_table() -> None:
    section = build_sweep_section(sweep(), "toy")
    chart = next(each for each in section.charts if each.title == "Throughput against batch size")
    svg = draw_chart(chart)
    bars = re.findall(r'd="M([\d.]+) ([\d.]+)L\1 ([\d.]+)M', svg)
    assert len(bars) == 6 and all(float(low) > float(high) for _, low, high in bars)
    numbers = build_chart_numbers(chart)
    assert numbers["columns"][-1] == "95 % interval"
    assert {row[-1] for row in numbers["rows"]} == {"950.45 to 954.78"}


def test_a_point_without_an_interval_has_no_error_bar() -> None:
    study = sweep(lambda figures, point: replace(figures, low=None if point.batch == 1 else 950.0))
    section = build_sweep_section(study, "toy")
    chart = next(each for each in section.charts if each.title == "Throughput against batch size")
    assert len(re.findall(r'd="M([\d.]+) ([\d.]+)L\1 ([\d.]+)M', draw_chart(chart))) == 4
    assert [row[-1] for row in build_chart_numbers(chart)["rows"]].count("-") == 2


def test_the_page_of_an_onnx_file_says_what_was_measured() -> None:
    """Engine, precision, threads, sizes and hash stood in the record, and not on the page."""
    settings = {"onnx.shape.x": "Nx3x8", "onnx.value.sr": 16000.0, "batching.max_batch": 4}
    assert dict(build_subject_table(SUBJECT, settings).rows) == {
        "weights": "the ONNX file net.onnx",
        "SHA-256": "1a2b3c4d" * 8,
        "engine": "onnxruntime",
        "precision": "fp32",
        "device": "cpu",
        "CPU threads": "2",
        "sizes of x": "Nx3x8",
        "value of sr": "16000.0",
    }
