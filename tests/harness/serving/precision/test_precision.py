"""`podium precision`: a row for each engine and format, its speed never without its accuracy,
nothing measured twice.
"""

import io
import json
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from podium_fakes.drive import options, until, words
from podium_fakes.engine import FakeEngine
from podium_fakes.kept import keep_ceiling, keep_checkpoint
from system_records import put_system
from warm import Warm

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.commands.precision import precision as command
from harness.request import resolve_request
from harness.serving.infer import serve_workload
from harness.serving.precision import command as module
from harness.serving.studies import driver
from harness.serving.studies.runs import StudySession
from harness.serving.studies.system import StudyOptions
from suite.cli import RunOptions
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import ACCURACY_TEXT, RUN_RECORD
from suite.loadgen.scenario import Scenario
from suite.measurement.score_limits import ScoreLimits
from suite.studies import run_facts
from suite.studies.kind import StudiedRow
from suite.studies.measured import describe_study, read_measured_study
from suite.studies.points import MeasuredRun, NextStep, StudiedPoint, build_failed_point
from suite.studies.precision import PRECISION
from suite.studies.precision_rows import (
    NO_FIGURES,
    ComparedSystem,
    PrecisionFigures,
    PrecisionPoint,
    PrecisionRequest,
    is_below,
)
from suite.studies.subject import StudySubject
from suite.terms import Precision

STUDY = "studies/fake-precision"
TABLE = f"{STUDY}/study.json"
RUNS = {"accuracy", "offline", "single-stream"}


SUBJECT = StudySubject(
    workload="fake",
    profile="smoke",
    checkpoint_sha256="",
    origin="",
    engine="",
    precision="",
    framework="",
    device="cpu",
    threads=1,
    system="testbed",
    version="1",
)


def set_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_CACHE", str(cache))
    keep_ceiling(cache)
    monkeypatch.setattr(
        FakeEngine,
        "missing",
        lambda _, device, precision: (
            None if precision in (Precision.FP32, Precision.BF16) else f"has no {precision}"
        ),
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and an engine of two formats."""
    set_up(tmp_path / "cache", monkeypatch)


@dataclass(frozen=True)
class Measured:
    """What a comparison of both formats left behind, and printed."""

    results: Path
    rows: list[dict[str, Any]]
    told: str


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """Both formats, measured once."""
    folder, told = tmp_path_factory.mktemp("both"), io.StringIO()
    keep_checkpoint(folder / "results")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(told):
        set_up(folder / "cache", patch)
        rows = compared(folder / "results")
    yield Measured(results=folder / "results", rows=rows, told=told.getvalue())


@pytest.fixture
def measured(both: Measured, tmp_path: Path) -> Path:
    """Results of a test's own, with the runs of both formats."""
    shutil.copytree(both.results, tmp_path / "measured")
    return tmp_path / "measured"


def compared(
    results: Path, *assignments: str, form: str = "text", repeats: int = 1, **changes: Any
) -> list[dict[str, Any]]:
    asked = options(results, *assignments, **{"precision": None, **changes})
    shown = StudyOptions(values={}, output_format=form, repeats=repeats)
    module.compare_precisions("fake", asked, engine=None, study_options=shown)
    return rows_of(results)


def rows_of(results: Path) -> list[dict[str, Any]]:
    """The rows of the table, as they are read."""
    return study_of(results)["points"]  # type: ignore[no-any-return]


def study_of(results: Path) -> dict[str, Any]:
    """The study, as JSON."""
    return describe_study(read_measured_study(results / STUDY))


def list_errors(results: Path) -> list[str]:
    """What the judge has against the study, but for what disturbed this machine."""
    findings = Judge().judge_path(str(results / STUDY)).findings
    return [each.found for each in findings if each.severity is Severity.ERROR]


def record_served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Serve nothing, and note the first run of each system that would have been served."""
    served: list[str] = []

    def serve(
        _: StudySession, step: NextStep[PrecisionPoint, Any], number: int, done: object
    ) -> None:
        served.append(f"{step.point.precision} {step.point.run}")
        raise JudgedError("not served")

    monkeypatch.setattr(driver, "measure_counted_run", serve)
    return served


@pytest.mark.slow
def test_each_format_has_a_row_with_score_speed_and_latency(
    both: Measured, measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a second call reads what is there: a table must not cost its runs twice."""
    rows = both.rows
    assert [(row["engine"], row["precision"]) for row in rows] == [
        ("fake", "fp32"),
        ("fake", "bf16"),
    ]
    for row in rows:
        assert (
            row["compliant"]
            and row["scores"] == {"top1": 0.8}
            and row["difference"] == {"top1": 0.0}
        )
        assert (
            row["samples_per_second"] > 0
            and 0 < row["latency_ns"]["p50"] <= row["latency_ns"]["p90"] <= row["latency_ns"]["p99"]
        )
    assert rows[0]["compared"] is None  # the reference
    assert rows[1]["compared"]["equal"] == rows[1]["compared"]["samples"] > 0
    assert rows[0]["speed_up"] == 1.0 and len({row["folder"] for row in rows}) == 2
    assert "speed-up" in both.told and "top1 0.8000" in both.told and "saved in" in both.told
    served = record_served(monkeypatch)
    assert compared(measured) == rows and not served and study_of(measured)["finished"]
    assert study_of(measured)["stamps"]["system"] == "testbed"


@pytest.mark.slow
def test_the_accuracy_set_is_scored_once_per_format(both: Measured) -> None:
    """SingleStream answers the same samples: a second accuracy run took as long as the first."""
    for system in ("testbed-fake-fp32", "testbed-fake-bf16"):
        runs = [path.parent for path in (both.results / STUDY / system).rglob(RUN_RECORD)]
        assert {run.name for run in runs} == RUNS
        assert (both.results / STUDY / system / "accuracy" / ACCURACY_TEXT).is_file()


@pytest.mark.slow
def test_repeats_give_intervals_and_score_once(tmp_path: Path) -> None:
    keep_checkpoint(tmp_path)
    (row,) = compared(tmp_path, precision=Precision.FP32, repeats=2)
    assert {"samples_per_second", "p50_ns", "p90_ns", "p99_ns"} == row["intervals"].keys()
    low, high = row["intervals"]["samples_per_second"]
    assert low <= row["samples_per_second"] <= high and row["scores"] == {"top1": 0.8}
    names = {path.parent.name for path in (tmp_path / STUDY).rglob(RUN_RECORD)}
    assert names == RUNS | {"offline-run-2", "single-stream-run-2"}
    assert study_of(tmp_path)["finished"] and not list_errors(tmp_path)


@pytest.mark.slow
def test_the_judge_recomputes_the_table(both: Measured) -> None:
    assert not list_errors(both.results)


@pytest.mark.slow
def test_the_length_is_told_before_anything_is_measured(both: Measured) -> None:
    assert re.search(r"^fake: 2 systems, about \d+ s$", both.told, re.MULTILINE)
    lines = both.told.splitlines()
    (told,) = (place for place, line in enumerate(lines) if line.startswith("fake: 2 systems"))
    assert not any("top1" in line for line in lines[:told])


def test_a_score_without_a_reference_stands_beside_fp32_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Top-5 is told, not held: FP32 beside INT8 is what such a table is read for."""
    points = [
        *measure_points("fp32", {"top1": 0.8, "top5": 0.9}, 10.0),
        *measure_points("int8", {"top1": 0.7, "top5": 0.88}, 40.0),
    ]
    request = ask_for("fp32", "int8", reference={"top1": 0.81})
    first, second = list_rows(request, points)
    assert first["difference"] == pytest.approx({"top1": -0.01, "top5": 0.0})
    assert second["difference"] == pytest.approx({"top1": -0.11, "top5": -0.02})
    assert (first["speed_up"], second["speed_up"]) == (1.0, 4.0)
    (alone,) = list_rows(ask_for("int8", reference={}), points[3:])
    assert (alone["difference"], alone["speed_up"]) == ({}, None)


def measure_points(
    precision: str, scores: dict[str, float], rate: float
) -> Iterator[StudiedPoint[PrecisionPoint, PrecisionFigures]]:
    """The points of a system, each with one run."""
    said = {
        "accuracy": replace(NO_FIGURES, scores=scores),
        "offline": replace(NO_FIGURES, samples_per_second=rate),
        "single-stream": replace(NO_FIGURES, p50_ns=1e6, p90_ns=2e6, p99_ns=3e6),
    }
    for name, figures in said.items():
        point = PrecisionPoint(engine="e", precision=precision, run=name)
        run = MeasuredRun(
            folder=name, number=1, point=point, repeat=1, seconds=1.0, figures=figures
        )
        yield StudiedPoint(point=point, runs=(run,), figures=figures)


def ask_for(*precisions: str, reference: dict[str, float]) -> PrecisionRequest:
    """A request for number formats of one engine."""
    systems = tuple(ComparedSystem(engine="e", precision=each) for each in precisions)
    limits = ScoreLimits(reference=reference, share=0.5)
    return PrecisionRequest(systems=systems, score_limits=limits, conditions={}, settings={})


def list_rows(
    request: PrecisionRequest,
    points: Sequence[StudiedPoint[PrecisionPoint, PrecisionFigures]],
) -> list[dict[str, Any]]:
    """The rows as JSON."""
    answer = PRECISION.compute_answer([request], points)
    return [
        dict(PRECISION.describe_row(row))
        for row in (
            StudiedRow(studied=each, request=request, answer=answer, subject=SUBJECT)
            for each in PRECISION.arrange_rows([request], points)
        )
    ]


def test_a_system_is_a_row_once_all_of_its_runs_are_there() -> None:
    """An accuracy without a speed would be read as a row that is finished."""
    points = [*measure_points("fp32", {"top1": 0.8}, 10.0)]
    request = ask_for("fp32", reference={})
    assert not list_rows(request, points[:2])
    failed = build_failed_point(points[2].point, "out of memory")
    (row,) = list_rows(request, [*points[:2], failed])
    assert not row["compliant"] and row["why"] == "out of memory" and not row["scores"]


@pytest.mark.slow
def test_another_setting_is_another_system_under_test(
    measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows from two batch sizes, side by side, compare nothing."""
    served = record_served(monkeypatch)
    compared(measured, precision=Precision.FP32)
    assert not served
    with pytest.raises(JudgedError):
        compared(measured, "batching.max_batch=3", precision=Precision.FP32)
    assert served == ["fp32 accuracy"]
    assert (measured / ".podium/superseded/1" / TABLE).is_file(), "the other table is kept"


@pytest.mark.slow
def test_a_command_for_one_format_keeps_the_row_of_the_other(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = compared(measured, precision=Precision.BF16)
    assert [row["precision"] for row in rows] == ["fp32", "bf16"], "a narrower command moves no row"
    assert "kept from an earlier command: fake fp32" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_is_too_short_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge refuses it; a table that says yes, and a second one that reads it as if it were
    whole, would mislead twice.
    """
    keep_checkpoint(tmp_path)
    with pytest.raises(
        JudgedError,
        match=(
            "Offline performance is shorter than the round requires; SingleStream performance is"
            " shorter"
        ),
    ):
        compared(tmp_path, "loadgen.min_duration_ms=20", precision=Precision.FP32)
    served = record_served(monkeypatch)
    with pytest.raises(JudgedError):
        compared(tmp_path, "loadgen.min_duration_ms=20", precision=Precision.FP32)
    assert not served
    with pytest.raises(JudgedError):
        compared(tmp_path, precision=Precision.FP32)
    assert served == ["fp32 offline"], "the answers stay"


@pytest.mark.slow
def test_existing_answers_are_held_to_the_reference(
    measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that are kept are read, not served: what their first serving refused has to be refused
    again.
    """
    monkeypatch.setattr(run_facts, "score_study_answers", lambda *_: {"top1": 0.5})
    with pytest.raises(JudgedError, match=r"fake fp32: accuracy: top1 is 0.5000, below 0.7920"):
        compared(measured, precision=Precision.FP32)


@pytest.mark.slow
def test_results_stay_and_equal_ones_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results of the tree were moved to .podium/superseded, and worse ones took their place."""
    keep_checkpoint(tmp_path)
    serve_offline(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    aside = tmp_path / ".podium" / "superseded"
    repeated = list(aside.rglob("*"))  # of a run that was INVALID beside other work
    compared(tmp_path, precision=Precision.FP32)
    assert {path: path.read_bytes() for path in before} == before
    assert list(aside.rglob("*")) == repeated
    assert "fake: takes the run in" in capsys.readouterr().out
    name = "open/tests/results/testbed-fake-fp32/fake/Offline/performance/run_1/run.json"
    copied = tmp_path / STUDY / "testbed-fake-fp32/offline/run.json"
    assert copied.read_bytes() == before[tmp_path / name]
    assert not list_errors(tmp_path)
    compared(tmp_path, "batching.max_batch=3", precision=Precision.FP32)
    assert {path: path.read_bytes() for path in before} == before


def serve_offline(results: Path) -> None:
    """Serve Offline into the results, as the table does it."""
    serve_workload(
        "fake",
        options(results, system="testbed-fake-fp32"),
        scenarios=(Scenario.OFFLINE,),
        mode="all",
        checkpoint=None,
    )


@pytest.mark.slow
def test_an_interrupted_comparison_keeps_finished_systems_and_goes_on(
    light: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the second format is measured: the row of the first stays, as do its runs."""
    keep_checkpoint(tmp_path)
    arguments = words(tmp_path, "--engine", "fake", "--set", "batching.max_batch=4")[1:]
    child = light.start(["precision", *arguments])
    until(lambda: (tmp_path / TABLE).is_file() and len(rows_of(tmp_path)) == 1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and "the same command continues" in err
    begun = study_of(tmp_path)
    assert not begun["finished"] and [row["precision"] for row in begun["points"]] == ["fp32"]
    capsys.readouterr()
    assert compared(tmp_path, "batching.max_batch=4")[0] == begun["points"][0]
    assert "2 systems, 1 of them measured already, about" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cuda"},
        {"profile": "quick"},
        {"version": "0.0"},
        {"framework": "other"},
        {"threads": 7},
    ],
)
def test_runs_of_another_machine_or_podium_are_not_these(
    measured: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a system's own name, runs on a CPU lie where those on a GPU would."""
    served = record_served(monkeypatch)
    compared(measured, precision=Precision.FP32)
    assert not served
    for path in measured.glob("studies/*/*/system.json"):
        put_system(**changes)(path)
    with pytest.raises(JudgedError, match="not served"):
        compared(measured, precision=Precision.FP32)
    assert served == ["fp32 accuracy"]


@pytest.mark.slow
def test_a_format_that_loses_accuracy_is_shown_and_refused(tmp_path: Path) -> None:
    """Speed without the accuracy to hold is no result, and the exit code says so."""
    keep_checkpoint(tmp_path, reference_accuracy={"top1": 0.9})
    with pytest.raises(JudgedError, match="fake fp32: .*top1 is 0.8000, below 0.8910"):
        compared(tmp_path, precision=Precision.FP32)
    (row,) = rows_of(tmp_path)
    assert (
        not row["compliant"]
        and row["difference"]["top1"] == pytest.approx(-0.1)
        and row["samples_per_second"] > 0
    )


def test_what_cannot_be_served_is_a_row_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One engine that refuses must not hide what the others do."""
    keep_checkpoint(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise MissingError("network fake cannot be exported")

    monkeypatch.setattr(driver, "measure_counted_run", refuse)
    with pytest.raises(JudgedError, match="fake fp32: network fake cannot be exported"):
        compared(tmp_path, precision=Precision.FP32)
    (row,) = rows_of(tmp_path)
    assert (row["why"], row["speed_up"], row["scores"]) == (
        "network fake cannot be exported",
        None,
        {},
    )
    assert not list_errors(tmp_path)


@pytest.mark.slow
def test_an_engine_that_does_not_take_an_option_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the one that takes it, its row would stand for something else than what was asked
    for.
    """
    keep_checkpoint(tmp_path)
    monkeypatch.setattr(FakeEngine, "options", frozenset(), raising=False)
    with pytest.raises(MissingError, match="no engine on this machine supports the request"):
        compared(tmp_path, "engine.compile=true")


def test_a_format_that_no_engine_has_is_missing(tmp_path: Path) -> None:
    keep_checkpoint(tmp_path)
    with pytest.raises(
        MissingError,
        match="fake: no engine on this machine supports the request; podium doctor fake says why",
    ):
        compared(tmp_path, precision=Precision.FP8)


def test_what_is_refused_everywhere_is_a_table_of_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first refusal says nothing of the others."""
    keep_checkpoint(tmp_path)

    def refuse(_: object, __: object, options: RunOptions, ___: object) -> None:
        raise RequestError(f"{options.precision} is not for this division")

    monkeypatch.setattr(module, "set_up_study_system", refuse)
    with pytest.raises(RequestError, match="fake: all [0-9]+ engines and precisions are refused"):
        compared(tmp_path)
    told = capsys.readouterr().out
    assert "fp32 is not for this division" in told and "bf16 is not for this division" in told
    with pytest.raises(RequestError, match="^fp32 is not for this division"):
        compared(tmp_path, precision=Precision.FP32)


@pytest.mark.slow
def test_json_stands_alone_on_stdout(tmp_path: Path) -> None:
    """Whoever pipes it into a program gets one document."""
    keep_checkpoint(tmp_path)
    shared = words(tmp_path, "--engine", "fake", "--precision", "fp32", "--format", "json")[1:]
    done = CliRunner().invoke(command, shared)
    assert done.exception is None, done.exception
    document = json.loads(done.stdout)
    assert document["stamps"]["workload"] == "fake"
    assert [row["engine"] for row in document["points"]] == ["fake"]
    assert "Offline" in done.stderr


def test_the_table_asks_for_more_than_a_result_has_to_tell(tmp_path: Path) -> None:
    """A row may name settings for it; what the user sets goes before them."""
    request = resolve_request(options(tmp_path), "fake")
    more = replace(request, row=replace(request.row, precision_settings={"data.workers": 1}))
    assert module.add_precision_settings(request) is request
    assert module.add_precision_settings(more).settings["data.workers"] == 1
    chosen = replace(more, options=replace(more.options, assignments=("data.workers=2",)))
    assert module.add_precision_settings(chosen).settings["data.workers"] == 2


@pytest.mark.parametrize(
    ("told", "short"), [(24, False), (23, True), ("many", True), (True, True), (None, True)]
)
def test_a_setting_that_is_no_number_is_too_short(told: Any, short: bool) -> None:
    """A log may say anything of what LoadGen was asked for."""
    assert is_below(told, 24) is short
