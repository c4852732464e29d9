"""A search's table held against its runs: a run that is left out, a probe that passes as a run, a
request that was edited in all files alike.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples import result_of
from kinds.rates import peak, speed
from making_rates import write_token_peak
from spoiling import put, setting

from compliance.verdict import Severity
from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.studies.documents import POINT_FILE, STUDY_FILE
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.peak import PeakFigures, PeakStep
from suite.studies.points import StudiedPoint
from suite.studies.speed import SPEED

Edit = Callable[[Path], object]
TrialPoint = StudiedPoint[PeakStep, PeakFigures]


def found(folder: Path, severity: Severity) -> set[str]:
    return {finding.rule for finding in result_of(folder).findings if finding.severity is severity}


def read_study(folder: Path) -> MeasuredStudy:
    """The search as its readers have it."""
    return read_measured_study(next(folder.rglob(STUDY_FILE)).parent)


def sought(**changes: Any) -> Edit:
    """Change the request of the search."""

    def change(folder: Path) -> None:
        (path,) = folder.rglob(STUDY_FILE)
        document = json.loads(path.read_text())
        document["requests"][0]["request"] |= changes
        path.write_text(json.dumps(document))

    return change


def leave_out(folder: Path, keep: Callable[[TrialPoint], bool], remove: bool = False) -> None:
    """Leave trials out of the study, and their folders if so wished."""
    (path,) = folder.rglob(STUDY_FILE)
    points = read_study(folder).points
    if remove:
        for each in points:
            keep(each) or shutil.rmtree(path.parent / each.folder)
    put(runs=[each.folder for each in points if keep(each)])(path)


def valid(point: TrialPoint) -> bool:
    return bool(point.figures.verdict == "VALID")


def not_first(point: TrialPoint) -> bool:
    """All but the first run."""
    return not point.folder.endswith("trial-01")


def as_probe(folder: Path) -> None:
    """Tell the first INVALID run as a probe."""
    (path,) = folder.rglob(STUDY_FILE)
    point = next(each for each in read_study(folder).points if not valid(each))
    put(point__full=False)(path.parent / point.folder / POINT_FILE)


def shortened(folder: Path) -> None:
    """Pass a probe as a run: its log asks for fewer queries."""
    (path,) = folder.rglob(STUDY_FILE)
    log = path.parent / read_study(folder).points[0].folder / DETAIL_LOG
    setting("effective_min_query_count", 100)(log)
    setting("effective_min_duration_ms", 1)(log)


def in_first_log(key: str, value: Any) -> Edit:
    """Change a value of the first run's log."""
    return lambda folder: setting(key, value)(next(folder.rglob(f"trial-01/{DETAIL_LOG}")))


def in_first_point(**changes: Any) -> Edit:
    """Change the record of the first run."""
    return lambda folder: put(**changes)(next(folder.rglob(f"trial-01/{POINT_FILE}")))


def test_the_example_has_valid_and_invalid_runs_and_no_findings(tmp_path: Path) -> None:
    """Else every test below would pass by it."""
    peak(tmp_path)
    answer = read_study(tmp_path).answer
    assert not result_of(tmp_path).findings and answer.valid and answer.invalid


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (lambda folder: leave_out(folder, valid), "study.points"),
        (lambda folder: leave_out(folder, valid, remove=True), "study.points"),
        (lambda folder: leave_out(folder, not_first, remove=True), "study.points"),
        (lambda folder: next(folder.rglob(QUERY_RECORD_FILE)).unlink(), "study.answer"),
        (as_probe, "study.points"),
        (shortened, "study.points"),
        (in_first_point(point__rate=99.0), "study.points"),
        (in_first_point(number=2), "study.points"),
        (in_first_log("effective_target_qps", 40.0), "study.points"),
        (in_first_log("effective_target_latency_ns", 1), "study.points"),
        (in_first_log("effective_target_latency_percentile", 0.5), "study.points"),
        (in_first_log("effective_max_query_count", 7), "study.points"),
        (in_first_log("effective_scenario", "Offline"), "study.points"),
        (in_first_log("effective_test_mode", "AccuracyOnly"), "study.points"),
        (sought(min_queries=1), "study.plan"),
        (sought(min_duration_ms=1), "study.plan"),
        (sought(of_round=False), "study.plan"),
        (sought(bound_ns=500_000_000), "study.plan"),
        (sought(bound_ns=500_000_000), "study.points"),
    ],
)
def test_a_search_that_was_edited_is_found(edit: Edit, rule: str, tmp_path: Path) -> None:
    """In the request, beside the runs, or in their logs."""
    peak(tmp_path)
    edit(tmp_path)
    assert rule in found(tmp_path, Severity.ERROR)


def log_invalid(folder: Path) -> None:
    """Have LoadGen reject the run."""
    setting("result_validity", "INVALID")(next(folder.rglob(DETAIL_LOG)))


def leave_runs_out(folder: Path) -> None:
    """Name no run in the study."""
    put(runs=[])(next(folder.rglob(STUDY_FILE)))


def ask_for_other_conditions(folder: Path) -> None:
    """Let request and point have a bound that the round has not."""
    bound = {"bound_ns": 15_000_000}
    path = next(folder.rglob(STUDY_FILE))
    document = json.loads(path.read_text())
    document["requests"][0]["request"]["points"][0] |= bound
    path.write_text(json.dumps(document))
    put(point__bound_ns=15_000_000)(next(folder.rglob(POINT_FILE)))


@pytest.mark.parametrize(
    ("edit", "rule", "found_words"),
    [
        (leave_runs_out, "study.points", "the run 'box-torch-fp32/server' in the study's folder"),
        (ask_for_other_conditions, "study.points", "effective_target_latency_ns"),
        (ask_for_other_conditions, "study.plan", "other conditions of Server"),
    ],
)
def test_speed_alone_tells_all_its_runs_and_their_conditions(
    edit: Edit, rule: str, found_words: str, tmp_path: Path
) -> None:
    """A run that is left out, or one under another bound, would make another result of it."""
    speed(tmp_path)
    assert not result_of(tmp_path).findings
    edit(tmp_path)
    assert any(
        (finding.rule, finding.severity) == (rule, Severity.ERROR) and found_words in finding.found
        for finding in result_of(tmp_path).findings
    ), result_of(tmp_path).findings


def test_an_invalid_run_of_speed_alone_is_told_as_one(tmp_path: Path) -> None:
    """Its verdict is stored nowhere but in LoadGen's log, and the study is in vain."""
    speed(tmp_path)
    assert not SPEED.describe_failure(read_study(tmp_path).answer)
    log_invalid(tmp_path)
    assert not result_of(tmp_path).findings
    (row,) = read_study(tmp_path).rows
    assert SPEED.table.list_told_rows([row])[1][:2] == ("Server", "INVALID")
    told = SPEED.describe_failure(read_study(tmp_path).answer)
    assert told == "Server performance run 1 is INVALID"


@pytest.mark.parametrize(
    "edit",
    [sought(tolerance=0.5), sought(tolerance=0.001), sought(seen=60.0), sought(budget_s=7.0)],
)
def test_runs_that_do_not_follow_from_one_another_are_a_warning(edit: Edit, tmp_path: Path) -> None:
    """Another version may have searched."""
    peak(tmp_path)
    edit(tmp_path)
    assert "study.plan" in found(tmp_path, Severity.WARNING)


@pytest.mark.parametrize(
    ("edit", "rules"),
    [
        (lambda folder: None, set()),
        (lambda folder: next(folder.rglob(TOKEN_RECORD_FILE)).unlink(), {"study.answer"}),
        (sought(per_token_ns=20_000_000), {"study.points", "study.plan"}),
        (sought(per_token_ns=None), {"study.points", "study.plan"}),
        (sought(of_round=False), {"study.plan"}),
    ],
)
def test_a_search_within_bounds_of_tokens_is_recomputed_from_them(
    tmp_path: Path, edit: Edit, rules: set[str]
) -> None:
    """Both bounds are the row's, and late answers are counted from tokens.npy."""
    write_token_peak(tmp_path)
    edit(tmp_path)
    assert found(tmp_path, Severity.ERROR) == rules
