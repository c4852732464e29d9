"""`podium sweep`: each point a LoadGen run, nothing measured twice, and a table that the judge
recomputes.
"""

import csv
import io
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from podium_fakes.kept import keep_checkpoint

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.commands.sweep import sweep
from harness.machine import cpus
from harness.serving.studies import driver, idle
from harness.serving.studies.runs import measure_counted_run
from suite.errors import JudgedError, RequestError
from suite.files.layout import STATE_FOLDER
from suite.studies import batch_loop
from suite.studies import sweep as kind
from suite.studies.batch_loop import LoopFigures
from suite.studies.documents import (
    IDLE_TELEMETRY_FILE,
    POINT_FILE,
    STUDIES_FOLDER,
    STUDY_FILE,
)
from suite.studies.measured import describe_study, read_measured_study
from suite.studies.sweep import StudyRow, select_best_batches

SHORT = (
    "--seconds",
    "0.2",
    "--threads",
    "1",
    "--engine",
    "fake",
    "--framework",
    "fake",
    "--set",
    "fake.sleep_ms=1",
)
"""A device that sleeps: one that answers at once has queries by the hundred thousand, and runs out
of those that LoadGen prepared.
"""


def set_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_CACHE", str(cache))
    monkeypatch.setattr(idle, "IDLE_POWER_S", 0.3)
    monkeypatch.setattr(kind, "choose_longer_run", lambda row, seconds: None)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and points are measured once, however wide their intervals."""
    set_up(tmp_path / "cache", monkeypatch)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The results of a sweep of three batch sizes, and what it printed."""
    folder = tmp_path_factory.mktemp("three")
    keep_checkpoint(folder / "results")
    with pytest.MonkeyPatch.context() as patch:
        set_up(folder / "cache", patch)
        told = invoked(
            "fake",
            "--batches",
            "1,2,4",
            *SHORT,
            "--results",
            folder / "results",
            "--within-ms",
            "1000",
        ).stdout
    yield folder / "results", told


@pytest.fixture
def swept(three: tuple[Path, str], tmp_path: Path) -> Path:
    """Results of a test's own, with that sweep."""
    shutil.copytree(three[0], tmp_path / "swept")
    return tmp_path / "swept"


def invoked(*arguments: object, catch: bool = False) -> Result:
    return CliRunner().invoke(sweep, [*map(str, arguments)], catch_exceptions=catch)


def table(results: Path) -> dict[str, Any]:
    """The table, as everybody computes it."""
    told = json.loads(json.dumps(describe_study(read_measured_study(study_folder(results)))))
    return {
        "rows": told["points"],
        "drift": told["answer"]["drift"],
        "idle": told.get("idle", []),
        "finished": told["finished"],
        "threads": told["stamps"]["threads"],
    }


def study_folder(results: Path) -> Path:
    """Where the study is."""
    return results / STUDIES_FOLDER / "fake"


def measure_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a run is made."""
    monkeypatch.setattr(driver, "measure_counted_run", lambda *_: pytest.fail("measured again"))


def errors(path: Path) -> list[str]:
    return [
        finding.rule
        for finding in Judge().judge_path(str(path)).findings
        if finding.severity is Severity.ERROR
    ]


@pytest.mark.slow
def test_a_workload_is_swept_scored_and_judged(
    three: tuple[Path, str], swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row per batch size; a second call reads what is there: a sweep that was stopped goes on."""
    told, study = three[1], table(swept)
    assert [row["batch"] for row in study["rows"]] == [1, 2, 4] and len(study["drift"]) == 1
    for row in study["rows"]:
        assert (
            row["samples_per_second"] > 0
            and row["queries"] >= 10
            and row["scores"] == {"top1": 0.8}
            and row["difference"] == {"top1": 0.0}
        )
    assert "to reference" in told and "to fp32" not in told
    assert "largest batch within 1000 ms: 4 in fake fp32" in told and "saved in" in told
    assert errors(swept / STUDIES_FOLDER / "fake") == []
    measure_nothing(monkeypatch)
    invoked("fake", "--batches", "1,2,4", *SHORT, "--results", swept, "--within-ms", "1000")
    assert table(swept)["rows"] == study["rows"]


@pytest.mark.slow
def test_a_changed_cell_and_a_changed_run_are_found(swept: Path) -> None:
    """Figures are computed from runs whose settings and records agree."""
    folder = study_folder(swept)
    path = folder / STUDY_FILE
    text = path.read_text()
    study = json.loads(text)
    study["requests"][0]["request"]["reference"] = {"top1": 0.7}
    path.write_text(json.dumps(study))
    assert errors(folder) == ["study.plan"], "the reference accuracy is the checkpoint's"
    study = json.loads(text)
    study["requests"][0]["request"]["batches"] = [1, 2]
    path.write_text(json.dumps(study))
    assert errors(folder) == ["study.plan"]
    path.write_text(text)
    record = next(folder.glob(f"*/batch-2/{POINT_FILE}"))
    own = record.read_text()
    record.write_text(own.replace('"batch": 2', '"batch": 4'))
    assert "study.points" in errors(folder)
    record.write_text(own)
    assert errors(folder) == []
    labels = folder / "truth" / "labels.txt"
    labels.write_text("x")
    assert errors(folder) == ["study.answer", "study.scores"]


@pytest.mark.slow
def test_each_point_has_its_watts_and_the_judge_recomputes_them(tmp_path: Path) -> None:
    """A meter of 50 W gives 50 W at each batch, with its grade; a point without watts is measured
    again when a meter is named.
    """
    keep_checkpoint(tmp_path)
    command = ("fake", "--batches", "1,2", *SHORT, "--results", tmp_path)
    plain = invoked(*command, "--power", "off").stdout
    assert (
        [row["energy"] for row in table(tmp_path)["rows"]] == [[], []]
        and " W  samples/s/W" in plain
        and " -" in plain
    )
    told = invoked(
        *command, "--power", "off", "--meter", "podium meter fake --watts 50 --period-ms 10"
    ).stdout
    path = tmp_path / STUDIES_FOLDER / "fake" / STUDY_FILE
    for row in table(tmp_path)["rows"]:
        (found,) = row["energy"]
        assert (
            found["average_w"] == pytest.approx(50, rel=0.01)
            and found["grade"] == "meter"
            and found["mj_per_query"] > 0
        )
    assert (
        "50.0 meter" in told
        and "idle: 50.0 W (meter, grade meter), not subtracted" in told
        and errors(path.parent) == []
    )
    (still,) = table(tmp_path)["idle"]
    assert still["average_w"] == pytest.approx(50, rel=0.01)
    readings = next(path.parent.glob("*/batch-2/telemetry.jsonl"))
    readings.write_text(readings.read_text() + "\n")
    assert errors(path.parent) == ["power.same_run", "records.present"]


@pytest.mark.slow
def test_a_meter_that_is_silent_costs_the_watts_alone(tmp_path: Path) -> None:
    """The row keeps its figures, and says why it has no energy."""
    keep_checkpoint(tmp_path)
    script = tmp_path / "meter.py"
    script.write_text(
        "import sys\nfor line in sys.stdin:\n    print('error no such channel', flush=True)\n"
    )
    told = invoked(
        "fake",
        "--batches",
        "1",
        *SHORT,
        "--results",
        tmp_path,
        "--power",
        "off",
        "--meter",
        f"{sys.executable} {script}",
    ).stdout
    (row,) = table(tmp_path)["rows"]
    assert (
        row["samples_per_second"] > 0
        and row["energy"] == []
        and "no such channel" in row["no_energy"][0]
        and "no energy:" in told
    )


def as_asked(row: LoopFigures, seconds: float) -> LoopFigures:
    """A row of a run that lasted as long as it should: one that a stall makes twice as long is
    rightly not repeated.
    """
    return replace(row, queries=1, mean_latency_ns=row.times * seconds * 1e9)


@pytest.mark.slow
def test_a_point_with_a_wide_interval_is_measured_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to four times; the longest run is the row, and the judge holds its length against
    LoadGen's log.
    """
    keep_checkpoint(tmp_path)
    monkeypatch.setattr(
        kind,
        "choose_longer_run",
        lambda figures, seconds: batch_loop.choose_longer_run(as_asked(figures, seconds), seconds),
    )
    monkeypatch.setattr(batch_loop, "WIDE_INTERVAL_SHARE", 0.0)
    invoked("fake", "--batches", "1", *SHORT, "--results", tmp_path)
    (row,) = table(tmp_path)["rows"]
    folder = study_folder(tmp_path)
    assert row["times"] == 4 and errors(folder) == []
    measure_nothing(monkeypatch)
    invoked("fake", "--batches", "1", *SHORT, "--results", tmp_path)
    (log,) = folder.glob("*/batch-1/mlperf_log_detail.txt")
    asked = '"effective_min_duration_ms", "value": '
    log.write_text(log.read_text().replace(f"{asked}800", f"{asked}200"))
    assert "study.points" in errors(folder)


def row_of(**changes: Any) -> StudyRow:
    return StudyRow(
        **{
            "engine": "e",
            "precision": "fp32",
            "batch": 1,
            "folder": "f",
            "queries": 100,
            "samples_per_second": 100.0,
            "low": 90.0,
            "high": 110.0,
            "mean_latency_ns": 10e6,
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({}, 2),
        ({"times": 2, "queries": 200}, 4),
        ({"times": 4, "queries": 400}, None),
        ({"low": 96.0, "high": 104.5}, None),
        ({"high": None}, 2),
        ({"low": None, "high": None}, None),
        ({"queries": 250}, 4),
        ({"queries": 500}, None),
    ],
)
def test_how_long_a_wide_point_is_measured(changes: dict[str, Any], times: int | None) -> None:
    """Twice, then four times one second; ten slow queries that took as long already are not
    repeated.
    """
    assert batch_loop.choose_longer_run(row_of(**changes), 1.0) == times


@pytest.mark.slow
def test_a_sweep_goes_on_with_the_threads_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is busy when it goes on would otherwise make another system of it, and set
    aside what was measured.
    """
    keep_checkpoint(tmp_path)
    monkeypatch.setattr(cpus, "count_available_cores", lambda: 2)
    monkeypatch.setattr(cpus, "measure_busy_share", lambda: 0.5)
    command = (
        "fake",
        *SHORT[:2],
        *SHORT[4:],
        "--results",
        tmp_path,
        "--batches",
    )  # the number of threads is not said
    invoked(*command, "1")
    monkeypatch.setattr(cpus, "measure_busy_share", lambda: 0.0)
    again = invoked(*command, "1,2", "--format", "csv")
    assert [line["batch"] for line in csv.DictReader(io.StringIO(again.stdout))] == ["1", "2"]
    assert table(tmp_path)["threads"] == 1 and not list(
        (tmp_path / STATE_FOLDER).glob("superseded/*")
    )


@pytest.mark.slow
def test_a_sweep_that_ends_early_leaves_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it is unfinished, and the same command goes on from it."""
    keep_checkpoint(tmp_path)
    command = ("fake", "--batches", "1,2", *SHORT, "--results", tmp_path)
    measure = measure_counted_run

    def stop_at_the_end(session: Any, step: Any, *rest: Any) -> None:
        if step.point.purpose == kind.AGAIN:
            raise JudgedError("the power went")
        measure(session, step, *rest)

    monkeypatch.setattr(driver, "measure_counted_run", stop_at_the_end)
    with pytest.raises(JudgedError):
        invoked(*command)
    study, folder = table(tmp_path), tmp_path / STUDIES_FOLDER / "fake"
    assert (
        [row["batch"] for row in study["rows"]] == [1, 2]
        and not study["finished"]
        and errors(folder) == []
    )
    assert "an unfinished study" in str(Judge().judge_path(str(folder)).findings)
    monkeypatch.setattr(driver, "measure_counted_run", measure)
    invoked(*command)
    assert (
        table(tmp_path)["finished"]
        and errors(folder) == []
        and "study.plan" not in str(Judge().judge_path(str(folder)).findings)
    )


@pytest.mark.slow
def test_a_narrower_sweep_keeps_rows_of_the_same_system(swept: Path) -> None:
    """What was measured stays in the table, and another length moves it aside."""
    command = ("fake", *SHORT, "--results", swept)
    before, folder = table(swept), swept / STUDIES_FOLDER / "fake"
    told = invoked(*command, "--batches", "1").stdout
    assert "kept from an earlier command: fake fp32 batch-2" in told
    assert table(swept)["rows"] == before["rows"]
    assert errors(folder) == []
    told = invoked(*command, "--batches", "2", "--seconds", "0.1").stdout
    assert [row["batch"] for row in table(swept)["rows"]] == [
        2
    ] and "earlier results moved to" in told
    assert not {"study.plan", "study.records"} & {
        finding.rule for finding in Judge().judge_path(str(folder)).findings
    }
    (moved,) = (swept / STATE_FOLDER / "superseded").glob(f"*/{STUDIES_FOLDER}/fake/{STUDY_FILE}")
    again = json.loads(json.dumps(describe_study(read_measured_study(moved.parent))))
    assert again["points"] == before["rows"]


@pytest.mark.slow
def test_csv_and_json_have_all_points(tmp_path: Path) -> None:
    """stdout is the format alone."""
    keep_checkpoint(tmp_path)
    rows = list(
        csv.DictReader(
            io.StringIO(
                invoked(
                    "fake", "--batches", "2", *SHORT, "--results", tmp_path, "--format", "csv"
                ).stdout
            )
        )
    )
    (study,) = json.loads(
        invoked("fake", "--batches", "2", *SHORT, "--results", tmp_path, "--format", "json").stdout
    )["studies"]
    assert float(rows[0]["samples_per_second"]) == study["points"][0]["samples_per_second"]


@pytest.mark.slow
def test_an_error_of_no_one_batch_size_is_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that cannot be built is said once, and leaves nothing but what the idle machine
    draws; a batch that fails beside others says why.
    """
    keep_checkpoint(tmp_path)
    measure = measure_counted_run

    def fails_at(batch: int, words: str) -> None:
        def run(session: Any, step: Any, *rest: Any) -> None:
            if step.point.batch == batch:
                raise RequestError(words)
            measure(session, step, *rest)

        monkeypatch.setattr(driver, "measure_counted_run", run)

    fails_at(1, "no such layer")
    with pytest.raises(RequestError, match="no such layer"):
        invoked("fake", "--batches", "1,2", *SHORT, "--results", tmp_path)
    assert {path.name for path in (tmp_path / STUDIES_FOLDER / "fake").glob("*")} <= {
        IDLE_TELEMETRY_FILE,
        STUDY_FILE,
    }
    fails_at(2, "no kernel for a batch of 2")
    invoked("fake", "--batches", "1,2", *SHORT, "--results", tmp_path)
    assert [row["why"] for row in table(tmp_path)["rows"]] == [
        "",
        "no kernel for a batch of 2",
    ] and errors(tmp_path / STUDIES_FOLDER / "fake") == []


def test_the_best_batch_is_one_that_was_measured() -> None:
    """The largest within the budget, by p99 or, of few queries, by the mean."""
    rows = [
        StudyRow(
            engine="e",
            precision="fp32",
            batch=batch,
            folder=str(batch),
            samples_per_second=1.0,
            mean_latency_ns=mean,
            p99_ns=p99,
        )
        for batch, mean, p99 in ((1, 1e6, 2e6), (2, 2e6, 8e6), (4, 6e6, None), (8, 9e6, None))
    ]
    (best,) = select_best_batches(rows, 7.0)
    assert (best.batch, best.by) == (4, "mean")
    assert (
        select_best_batches(rows[:2], 7.0)[0].batch == 1
        and select_best_batches(rows, None) == ()
        and select_best_batches(rows, 0.5) == ()
    )
