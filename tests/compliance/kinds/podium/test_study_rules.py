"""A sweep held against its runs: what an edit of several files alike must not get past."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from examples import result_of
from kinds.study import read_first_row, read_study, scale_mean, study, study_in
from making_study import SYSTEM
from spoiling import put, setting

from compliance.verdict import Severity
from suite.files.layout import (
    DETAIL_LOG,
    QUERY_RECORD_FILE,
    RUN_RECORD,
    SUMMARY_LOG,
    SYSTEM_RECORD,
    TELEMETRY_FILE,
    TOKEN_RECORD_FILE,
)
from suite.loadgen.token_record import TOKEN_RECORD_FIELDS
from suite.studies.batch_loop import format_percentile_key
from suite.studies.documents import POINT_FILE, STUDY_FILE

Edit = Callable[[Path], object]


def errors(folder: Path) -> set[str]:
    return {
        finding.rule for finding in result_of(folder).findings if finding.severity is Severity.ERROR
    }


def warnings(folder: Path) -> set[str]:
    return {
        finding.rule
        for finding in result_of(folder).findings
        if finding.severity is Severity.WARNING
    }


def test_the_example_has_no_findings(tmp_path: Path) -> None:
    """Else every test below would pass by it."""
    study(tmp_path)
    assert not result_of(tmp_path).findings


def test_a_rate_that_was_doubled_in_the_log_is_found(tmp_path: Path) -> None:
    """The record of queries has the latencies."""
    scale_mean(tmp_path, 0.5)
    assert "study.queries" in errors(tmp_path)


def test_a_rate_of_tokens_follows_from_their_record(tmp_path: Path) -> None:
    """Five tokens to each answer are five times the samples/s."""
    study(tmp_path)
    first = read_first_row(tmp_path)
    assert first.samples_per_second and first.tokens_per_second is None
    tokens = numpy.full((first.queries * first.batch, len(TOKEN_RECORD_FIELDS)), 5, "<i8")
    (run,) = tmp_path.glob(f"**/{SYSTEM}/batch-8")
    numpy.save(run / TOKEN_RECORD_FILE, tokens)
    assert read_first_row(tmp_path).tokens_per_second == pytest.approx(5 * first.samples_per_second)


@pytest.mark.parametrize(("factor", "found"), [(0.99, errors), (1.5, warnings)])
def test_a_percentile_that_was_edited_in_the_log_is_found(
    factor: float, found: Callable[[Path], set[str]], tmp_path: Path
) -> None:
    """Below the record it cannot be; above it may be by what a busy machine does behind an
    answer.
    """
    study(tmp_path)
    p50_ns = int((read_first_row(tmp_path).p50_ns or 0) * factor)
    (log,) = tmp_path.glob(f"**/{SYSTEM}/batch-8/{DETAIL_LOG}")
    setting(format_percentile_key("50.00"), p50_ns)(log)
    assert found(tmp_path) == {"study.queries"}


@pytest.mark.parametrize("share", ["50.00", "90.00"])
def test_a_log_that_lost_a_latency_gives_no_figures(share: str, tmp_path: Path) -> None:
    """One line less in the log, and any rate passed."""
    study(tmp_path)
    for log in tmp_path.rglob(DETAIL_LOG):
        log.write_text(
            "".join(
                line
                for line in log.read_text().splitlines(keepends=True)
                if format_percentile_key(share) not in line
            )
        )
    assert "study.answer" in errors(tmp_path)


def test_drift_best_batch_and_refusal_follow_from_the_points(tmp_path: Path) -> None:
    """None of them is stored."""
    study(tmp_path)
    made = read_study(tmp_path)
    (drift,), (best,) = made.answer.drift, made.answer.best
    assert drift.change == pytest.approx(drift.samples_per_second / best.samples_per_second - 1)
    assert best.batch == 8 and "memory does not suffice" in made.points[1].why


def without(name: str) -> Edit:
    """Remove a file of every run."""
    return lambda folder: [path.unlink() for path in folder.rglob(name)]


def table(**changes: Any) -> Edit:
    """Change the record of the study."""
    return lambda folder: put(**changes)(next(folder.rglob(STUDY_FILE)))


def asked(**changes: Any) -> Edit:
    """Change what was asked for."""

    def change(folder: Path) -> None:
        path = next(folder.rglob(STUDY_FILE))
        document = study_in(path)
        document["requests"][0]["request"] |= changes
        path.write_text(json.dumps(document))

    return change


def of_points(**changes: Any) -> Edit:
    """Change the point of each run alike."""

    def change(folder: Path) -> None:
        for path in folder.rglob(POINT_FILE):
            document = study_in(path)
            document["point"] |= changes
            path.write_text(json.dumps(document))

    return change


def of_runs(**changes: Any) -> Edit:
    """Change the record of each run's point alike."""
    return lambda folder: [put(**changes)(path) for path in folder.rglob(POINT_FILE)]


def of_systems(**changes: Any) -> Edit:
    """Change the record of each run's system alike."""
    return lambda folder: [put(**changes)(path) for path in folder.rglob(SYSTEM_RECORD)]


def refuse_first(folder: Path) -> None:
    """Say that the measured batch did not fit, beside its run."""
    path = next(folder.rglob(STUDY_FILE))
    document = study_in(path)
    point = {**document["failed"][0]["point"], "batch": 8}
    document["failed"].append({"point": point, "why": "out of memory"})
    path.write_text(json.dumps(document))


PLACES = [f"{SYSTEM}/batch-8", f"{SYSTEM}/batch-8-again"]


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (table(runs=PLACES[1:]), "study.points"),
        (table(runs=PLACES[:1]), "study.points"),
        (table(runs=[]), "study.points"),
        (table(kind="campaign"), "study.points"),
        (table(machine__processors=0), "study.points"),
        (of_runs(seconds=0.5), "study.points"),
        (asked(batches=[8]), "study.plan"),
        (asked(engines=["onnxruntime"]), "study.plan"),
        (asked(batches=[]), "study.plan"),
        (asked(seconds=99.0), "study.plan"),
        (refuse_first, "study.points"),
        (
            lambda folder: shutil.copytree(
                next(folder.rglob("batch-8")), next(folder.rglob(SYSTEM)) / "batch-4"
            ),
            "study.points",
        ),
        (without(TELEMETRY_FILE), "study.records"),
        (without(QUERY_RECORD_FILE), "study.records"),
        (without(SUMMARY_LOG), "file.present"),
        (without(RUN_RECORD), "file.present"),
        (of_systems(name="h200"), "study.points"),
        (of_systems(threads=1), "study.points"),
        (of_points(seconds=9.0), "study.points"),
        (of_points(batch=4), "study.points"),
        (of_points(precision="int8"), "study.points"),
        (of_systems(framework="tensorflow"), "study.points"),
        (of_systems(settings={"x": 1}), "study.points"),
    ],
)
def test_what_was_removed_or_edited_is_found(edit: Edit, rule: str, tmp_path: Path) -> None:
    """A table that leaves out its bad points would look better than the machine is."""
    study(tmp_path)
    edit(tmp_path)
    assert rule in errors(tmp_path)


def test_what_an_unfinished_sweep_lacks_is_a_warning(tmp_path: Path) -> None:
    """A sweep that was killed has measured what it says."""
    study(tmp_path)
    shutil.rmtree(next(tmp_path.rglob("batch-8-again")))
    table(runs=PLACES[:1])(tmp_path)
    assert not errors(tmp_path) and warnings(tmp_path) == {"study.plan"}


def test_a_sweep_beside_other_programs_is_noisy_as_a_result_is(tmp_path: Path) -> None:
    """The telemetry of each point has what others used, and nobody looked at it."""
    study(tmp_path)
    for path in tmp_path.rglob(TELEMETRY_FILE):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "host" in line:
                line["host"] |= {"cpu_others": 0.46, "cpu_own": 0.5}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [each for each in result_of(tmp_path).findings if each.rule == "noise.others"]
    assert len({each.file for each in found}) == len(list(tmp_path.rglob(TELEMETRY_FILE)))
    assert {each.severity for each in found} == {Severity.WARNING}
