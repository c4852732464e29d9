"""A study of several systems: each run with its engine and number format, accuracy runs, and points
that cannot be measured.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import options
from podium_fakes.engine import FakeEngine
from podium_fakes.kept import keep_ceiling, keep_checkpoint

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.serving.studies.driver import measure_study
from harness.serving.studies.system import StudyOptions
from suite import registry
from suite.columns import Column, Table
from suite.errors import PodiumError, RequestError
from suite.loadgen.headline import HEADLINE_METRICS
from suite.loadgen.scenario import Scenario
from suite.studies.kind import PlannedRun, StudiedRow, StudiedSystem, StudyKind
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.points import StudiedPoint
from suite.studies.run_facts import RunFacts
from suite.terms import Precision
from suite.workload import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    """What a command asked for."""

    precisions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPoint:
    """Answers or the rate in one number format."""

    precision: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatFigures:
    """What a run says."""

    rate: float | None
    top1: float | None


Timed = StudiedPoint[FormatPoint, FormatFigures]


class FormatStudy(StudyKind[FormatRequest, FormatPoint, FormatFigures]):
    """The score and the rate of each number format."""

    name = "formats"
    request = FormatRequest
    point = FormatPoint
    table: Table[StudiedRow] = Table(
        columns=(
            Column("precision", lambda row: row.point.precision),
            Column("rate", lambda row: row.find_figure("rate")),
            Column("top1", lambda row: row.find_figure("top1")),
        )
    )
    has_several_systems = True
    keeps_failures = True

    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> FormatRequest:
        return FormatRequest(precisions=values["precisions"])

    def list_known_points(self, request: FormatRequest) -> Sequence[FormatPoint]:
        return ()

    def choose_next_point(
        self, request: FormatRequest, done: Sequence[Timed]
    ) -> FormatPoint | None:
        measured = [each.point for each in done]
        every = [
            FormatPoint(precision=each, mode=mode.value)
            for each in request.precisions
            for mode in (Mode.ACCURACY, Mode.PERFORMANCE)
        ]
        return next((each for each in every if each not in measured), None)

    def explain_omission(
        self, request: FormatRequest, point: FormatPoint, done: Sequence[Timed]
    ) -> str:
        failed = [each for each in done if each.why and each.point.precision == point.precision]
        return f"not tried: {failed[0].why}" if failed else ""

    def explain_failure(self, point: FormatPoint, error: PodiumError, done: Sequence[Timed]) -> str:
        return str(error) if done else ""

    def name_point(self, point: FormatPoint) -> str:
        return point.mode

    def describe_run(self, request: FormatRequest, point: FormatPoint) -> PlannedRun:
        return PlannedRun(
            scenario=Scenario.OFFLINE,
            mode=Mode(point.mode),
            engine="fake",
            precision=point.precision,
            keeps_round=False,
        )

    def compute_figures(
        self, request: FormatRequest, point: FormatPoint, run: RunFacts
    ) -> FormatFigures | None:
        if point.mode == Mode.ACCURACY:
            return FormatFigures(rate=None, top1=run.scores["top1"]) if run.scores else None
        rate = run.find_number(HEADLINE_METRICS[Scenario.OFFLINE][1])
        return FormatFigures(rate=rate, top1=None)


STUDY = FormatStudy()


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results with a checkpoint, an engine of two number formats, and the kind of study."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")
    keep_checkpoint(tmp_path / "results")
    monkeypatch.setattr(registry, "load_study_kind", lambda _: STUDY)
    monkeypatch.setattr(
        FakeEngine,
        "missing",
        lambda _, device, precision: None if precision in SERVED else f"has no {precision}",
    )
    return tmp_path / "results"


SERVED = (Precision.FP32, Precision.BF16)


def measure(results: Path, *precisions: str) -> tuple[MeasuredStudy, Path]:
    """Measure these number formats."""
    study_options = StudyOptions(values={"precisions": precisions}, output_format="json")
    return measure_study("formats", "fake", options(results), study_options)


def read_rules(folder: Path) -> set[str]:
    """The rules that an edited study breaks."""
    found = Judge().judge_path(str(folder)).findings
    return {each.rule for each in found if each.severity is Severity.ERROR}


def test_each_system_has_runs_of_its_own_and_failures_are_rows(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, folder = measure(results, "fp32", "int8", "bf16")
    told = json.loads(capsys.readouterr().out)
    rows = {(row.point.precision, row.point.mode): row for row in study.rows}
    assert rows["fp32", "accuracy"].figures.top1 == rows["bf16", "accuracy"].figures.top1 == 0.8
    assert rows["fp32", "performance"].figures.rate > 0
    assert "has no int8" in rows["int8", "accuracy"].studied.why
    assert rows["int8", "performance"].studied.why.startswith("not tried: ")
    assert study.is_finished and told["finished"]
    assert len([each for each in told["points"] if "why" in each]) == 2
    systems = [each for each in folder.iterdir() if (each / "system.json").is_file()]
    assert sorted(each.name for each in systems) == ["testbed-fake-bf16", "testbed-fake-fp32"]
    assert (folder / "truth" / "labels.txt").is_file()
    assert not read_rules(folder)


def test_a_later_command_keeps_failures_that_it_does_not_ask_for(results: Path) -> None:
    """Those that it asks for are tried again."""
    measure(results, "fp32", "int8")
    study, _ = measure(results, "fp32", "bf16")
    assert [each.point.precision for each in study.points if each.why] == ["int8", "int8"]
    before = (results / "studies/fake-formats-testbed/study.json").read_text()
    again, folder = measure(results, "int8", "fp32")
    assert json.loads(before)["failed"] == json.loads((folder / "study.json").read_text())["failed"]
    assert len(again.record.requests) == 3


def test_an_error_that_the_kind_does_not_explain_ends_the_study(results: Path) -> None:
    with pytest.raises(PodiumError, match="has no int8"):
        measure(results, "int8")


@pytest.mark.parametrize("what", ["reason", "run", "point", "score"])
def test_edits_of_failures_and_answers_are_found(results: Path, what: str) -> None:
    _, folder = measure(results, "fp32", "int8")
    record = folder / "study.json"
    document = json.loads(record.read_text())
    if what == "reason":
        document["failed"][0]["why"] = ""
    elif what == "run":
        point = {"precision": "fp32", "mode": "performance"}
        document["failed"].append({"point": point, "why": "no time"})
    elif what == "point":
        document["failed"][0]["point"]["precision"] = "fp16"
    else:
        (folder / "truth" / "labels.txt").write_text("")
    record.write_text(json.dumps(document))
    assert read_rules(folder)


def test_a_format_that_is_refused_before_anything_starts(results: Path) -> None:
    with pytest.raises(RequestError):
        measure_study(
            "formats", "fake", options(results, "fake.nothing=1"), StudyOptions(values={})
        )
    assert not (results / "studies").exists()


def test_what_is_measured_is_read_again(results: Path) -> None:
    study, folder = measure(results, "fp32")
    again = read_measured_study(folder)
    assert [each.figures for each in again.points] == [each.figures for each in study.points]
