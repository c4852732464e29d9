"""A study's table held against its runs: what an edit of several files alike must not get past."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from examples import result_of
from kinds.study import faster, row, study, study_in
from making_study import SYSTEM
from spoiling import put, setting

from compliance.verdict import Severity
from suite.files.layout import (
    DETAIL_LOG,
    QUERY_RECORD_FILE,
    SUMMARY_LOG,
    TELEMETRY_FILE,
    TOKEN_RECORD_FILE,
)
from suite.loadgen.token_record import TOKEN_RECORD_FIELDS
from suite.studies.documents import POINT_FILE, STUDY_FILE, format_percentile_key

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


def test_a_rate_that_was_doubled_in_log_and_table_alike_is_found(tmp_path: Path) -> None:
    """The record of queries has the latencies."""
    faster(tmp_path)
    assert "study.queries" in errors(tmp_path)


@pytest.mark.parametrize(("factor", "found"), [(1.0, set()), (2.0, {"study.figures"})])
def test_a_rate_of_tokens_follows_from_their_record(
    factor: float, found: set[str], tmp_path: Path
) -> None:
    """Five tokens to each answer are five times the samples/s."""
    study(tmp_path)
    (table,) = tmp_path.rglob(STUDY_FILE)
    first = study_in(table)["rows"][0]
    tokens = numpy.full((first["queries"] * first["batch"], len(TOKEN_RECORD_FIELDS)), 5, "<i8")
    numpy.save(table.parent / first["folder"] / TOKEN_RECORD_FILE, tokens)
    row(tokens_per_second=factor * 5 * first["samples_per_second"])(table)
    assert errors(tmp_path) == found


@pytest.mark.parametrize(("factor", "found"), [(0.99, errors), (1.5, warnings)])
def test_a_percentile_that_was_edited_in_log_and_table_alike_is_found(
    factor: float, found: Callable[[Path], set[str]], tmp_path: Path
) -> None:
    """Below the record it cannot be; above it may be by what a busy machine does behind an
    answer.
    """
    study(tmp_path)
    (table,) = tmp_path.rglob(STUDY_FILE)
    p50_ns = int(study_in(table)["rows"][0]["p50_ns"] * factor)
    row(p50_ns=float(p50_ns))(table)
    (log,) = tmp_path.glob(f"**/{SYSTEM}/batch-8/{DETAIL_LOG}")
    setting(format_percentile_key("50.00"), p50_ns)(log)
    assert found(tmp_path) == {"study.queries"}


@pytest.mark.parametrize("share", ["50.00", "90.00"])
def test_a_table_is_held_against_a_log_that_lost_a_latency(share: str, tmp_path: Path) -> None:
    """One line less in the log, and any rate passed."""
    study(tmp_path)
    (path,) = tmp_path.rglob(STUDY_FILE)
    first = study_in(path)["rows"][0]
    made = {
        "samples_per_second": 2 * first["samples_per_second"],
        "p50_ns": None if share == "50.00" else first["p50_ns"],
        "p90_ns": None,
    }
    row(**made)(path)
    changed = study_in(path)
    put(
        drift=[
            {**each, "change": each["samples_per_second"] / made["samples_per_second"] - 1}
            for each in changed["drift"]
        ],
        best=[
            {**each, "samples_per_second": made["samples_per_second"]} for each in changed["best"]
        ],
    )(path)
    for log in tmp_path.rglob(DETAIL_LOG):
        log.write_text(
            "".join(
                line
                for line in log.read_text().splitlines(keepends=True)
                if format_percentile_key(share) not in line
            )
        )
    assert "study.figures" in errors(tmp_path)


def without(name: str) -> Edit:
    """Remove a file or folder of every run."""
    return lambda folder: [path.unlink() for path in folder.rglob(name)]


def table(**changes: Any) -> Edit:
    """Change the table."""
    return lambda folder: put(**changes)(next(folder.rglob(STUDY_FILE)))


def of_points(**changes: Any) -> Edit:
    """Change the record of each run alike."""
    return lambda folder: [put(**changes)(path) for path in folder.rglob(POINT_FILE)]


def rows(edit: Callable[[list[dict[str, Any]]], object]) -> Edit:
    """Change the rows."""

    def change(folder: Path) -> None:
        path = next(folder.rglob(STUDY_FILE))
        document = study_in(path)
        edit(document["rows"])
        path.write_text(json.dumps(document))

    return change


REFUSED = {"engine": "torch", "precision": "fp32", "batch": 8, "folder": "", "why": "out of memory"}


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (rows(lambda every: every.pop(0)), "study.request"),
        (rows(lambda every: every.pop(1)), "study.request"),
        (table(drift=[]), "study.request"),
        (table(rows=[], drift=[], best=[]), "study.request"),
        (rows(lambda every: every.append(every[1])), "study.request"),
        (
            table(seed=3, command__order=["toy torch fp32 4096", "toy torch fp32 8"]),
            "study.request",
        ),
        (table(seed=3, command__order=[]), "study.request"),
        (table(kind="campaign"), "file.shape"),
        (table(command__batches=[8]), "study.request"),
        (table(command__engines=["onnxruntime"]), "study.request"),
        (rows(lambda every: every.__setitem__(0, REFUSED)), "study.folders"),
        (
            lambda folder: shutil.copytree(
                next(folder.rglob("batch-8")), next(folder.rglob(SYSTEM)) / "batch-4"
            ),
            "study.folders",
        ),
        (without(TELEMETRY_FILE), "study.folders"),
        (without(QUERY_RECORD_FILE), "study.folders"),
        (without(SUMMARY_LOG), "file.present"),
        (table(system="h200"), "sweep.points"),
        (rows(lambda every: every[0].update(why="slow")), "sweep.points"),
        (rows(lambda every: every[0].update(times=2)), "sweep.points"),
        (of_points(settings={"x": 1}), "sweep.points"),
        (of_points(framework="tensorflow"), "sweep.points"),
        (of_points(system="h200"), "sweep.points"),
        (rows(lambda every: every[0].update(no_energy=["the meter was silent"])), "study.figures"),
        (rows(lambda every: every[0].update(difference={"top1": 0.0})), "study.accuracy"),
    ],
)
def test_what_was_removed_or_edited_is_found(edit: Edit, rule: str, tmp_path: Path) -> None:
    """A table that leaves out its bad points would look better than the machine is."""
    study(tmp_path)
    edit(tmp_path)
    assert rule in errors(tmp_path)


def test_other_files_and_what_an_unfinished_sweep_lacks_are_warnings(tmp_path: Path) -> None:
    """A sweep that was killed has measured what it says."""
    study(tmp_path)
    next(tmp_path.rglob(STUDY_FILE)).with_name("note.txt").write_text("as it was\n")
    table(finished=False, drift=[])(tmp_path)
    assert not errors(tmp_path) and warnings(tmp_path) == {"study.request", "study.folders"}


def test_a_study_of_an_earlier_version_is_judged_as_before(tmp_path: Path) -> None:
    """It does not say what was asked for, which is a warning; its settings are held against its
    batches nevertheless.
    """
    study(tmp_path)
    path = next(tmp_path.rglob(STUDY_FILE))
    document = study_in(path)
    for name in ("command", "asked", "finished", "reference"):
        del document[name]
    path.write_text(json.dumps(document))
    for record in tmp_path.rglob(POINT_FILE):
        point = {
            name: value
            for name, value in study_in(record).items()
            if name not in ("system", "times", "lost")
        }
        record.write_text(json.dumps({**point, "settings": {"batching.max_batch": 8}}))
        (record.parent / TELEMETRY_FILE).unlink()
    assert not errors(tmp_path) and warnings(tmp_path) == {"study.request"}
    of_points(settings={"x": 1})(tmp_path)
    assert errors(tmp_path) == {"sweep.points"}


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
