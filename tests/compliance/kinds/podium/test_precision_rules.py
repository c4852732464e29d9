"""A comparison of engines and precisions that was edited: in its request, its points, the logs of
its runs, their answers, or the ground truth.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples import result_of
from kinds.rates import precision
from making import write_checkpoint
from spoiling import put, setting
from system_records import put_system

from compliance.verdict import Severity
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, RUN_RECORD, SYSTEM_RECORD
from suite.studies.documents import POINT_FILE, STUDY_FILE
from suite.studies.measured import MeasuredStudy, describe_study, read_measured_study

Edit = Callable[[Path], object]


def list_rules(folder: Path, severity: Severity) -> set[str]:
    return {each.rule for each in result_of(folder).findings if each.severity is severity}


def read_study(folder: Path) -> MeasuredStudy:
    """The study as its readers have it."""
    return read_measured_study(next(folder.rglob(STUDY_FILE)).parent)


def in_request(**changes: Any) -> Edit:
    """Change what the command asked for."""

    def change(folder: Path) -> None:
        (path,) = folder.rglob(STUDY_FILE)
        put(requests=[{**read_request(path), "request": merge_tables(path, changes)}])(path)

    return change


def read_request(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["requests"][0]
    return found


def merge_tables(path: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """The request with changes; those of a table leave its other fields."""
    request: dict[str, Any] = read_request(path)["request"]
    for name, value in changes.items():
        table = request[name]
        request[name] = {**table, **value} if isinstance(table, dict) else value
    return request


def in_run(run: str, file: str, edit: Callable[[Path], object]) -> Edit:
    """Edit a file of a run."""
    return lambda folder: edit(next(folder.rglob(f"{run}/{file}")))


def in_study(**changes: Any) -> Edit:
    """Change the record of the study."""
    return lambda folder: put(**changes)(next(folder.rglob(STUDY_FILE)))


def in_system(edit: Callable[[Path], object]) -> Edit:
    """Edit the record of the runs' system."""
    return lambda folder: edit(next(folder.rglob(SYSTEM_RECORD)))


def label_otherwise(folder: Path) -> None:
    """Have the accuracy run score less."""
    (labels,) = folder.rglob("labels.txt")
    labels.write_text(labels.read_text().replace("1", "3", 1))


def answer_otherwise(path: Path) -> None:
    """Change an answer of the accuracy run."""
    answers = json.loads(path.read_text())
    answers[0]["data"] = "07000000" if answers[0]["data"] != "07000000" else "08000000"
    path.write_text("[\n" + ",\n".join(map(json.dumps, answers)) + "\n]\n")


def leave_latencies_out(folder: Path) -> None:
    """Neither name nor keep the run of SingleStream."""
    (path,) = folder.rglob(STUDY_FILE)
    places = json.loads(path.read_text())["runs"]
    shutil.rmtree(path.parent / places[-1])
    put(runs=places[:-1])(path)


def call_invalid(folder: Path) -> None:
    """Have LoadGen reject SingleStream."""
    setting("result_validity", "INVALID")(next(folder.rglob(f"single-stream/{DETAIL_LOG}")))


SLOW_OFFLINE = {"Offline": {"min_duration_ms": 1, "min_queries": 1, "equal_issue": False}}
REFUSED = {"point": {"engine": "torch", "precision": "fp32", "run": "offline"}, "why": "no memory"}


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (
            in_run("offline", DETAIL_LOG, setting("result_samples_per_second", 500.0)),
            "loadgen.rate",
        ),
        (
            in_run("single-stream", DETAIL_LOG, setting("result_90.00_percentile_latency_ns", 1)),
            "loadgen.percentiles",
        ),
        (in_run("offline", POINT_FILE, put(point__engine="fast")), "study.points"),
        (in_run("offline", POINT_FILE, put(point__run="single-stream")), "study.points"),
        (in_run("accuracy", POINT_FILE, put(point__precision="int8")), "study.points"),
        (in_run("offline", RUN_RECORD, put(system_sha256="0" * 64)), "study.points"),
        (in_run("accuracy", ACCURACY_LOG, answer_otherwise), "study.scores"),
        (label_otherwise, "study.scores"),
        (in_system(put_system(name="other-torch-fp32")), "study.points"),
        (in_system(put(threads=7)), "study.points"),
        (in_system(put_system(engine="fast")), "study.points"),
        (in_system(put_system(precision="int8")), "study.points"),
        (in_study(failed=[REFUSED]), "study.points"),
        (in_request(score_limits={"share": 0.5}), "study.plan"),
        (in_request(score_limits={"threshold": {"top1": 0.1}}), "study.plan"),
        (in_request(conditions=SLOW_OFFLINE), "study.plan"),
        (in_request(systems=[]), "study.plan"),
    ],
)
def test_an_edit_of_a_comparison_is_found(edit: Edit, rule: str, tmp_path: Path) -> None:
    precision(tmp_path)
    assert not result_of(tmp_path).findings
    edit(tmp_path)
    assert rule in list_rules(tmp_path, Severity.ERROR), result_of(tmp_path).findings


def test_the_reference_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    """A lower one would let any score pass."""
    precision(tmp_path)
    write_checkpoint(tmp_path)
    assert not result_of(tmp_path / "studies").findings
    in_request(score_limits={"reference": {"top1": 0.1}})(tmp_path)
    (study,) = (tmp_path / "studies").iterdir()
    assert list_rules(study, Severity.ERROR) == {"study.plan"}


def test_an_unfinished_comparison_is_a_warning(tmp_path: Path) -> None:
    precision(tmp_path)
    leave_latencies_out(tmp_path)
    assert list_rules(tmp_path, Severity.WARNING) == {"study.plan"}
    assert not list_rules(tmp_path, Severity.ERROR) and not read_study(tmp_path).rows


def test_a_row_with_an_invalid_run_is_not_compliant(tmp_path: Path) -> None:
    """It is shown, and it is no result: the rules for runs of results do not hold for it."""
    precision(tmp_path)
    call_invalid(tmp_path)
    (row,) = describe_study(read_study(tmp_path))["points"]
    assert not row["compliant"] and row["why"] == "SingleStream performance is INVALID"
    assert not list_rules(tmp_path, Severity.ERROR)
