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
from kinds.rates import first, peak, precision, speed
from making_rates import write_token_peak
from spoiling import put, setting

from compliance.verdict import Severity
from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.studies.documents import STUDY_FILE
from suite.studies.rates import RATE_ATTEMPT_FILE, PeakRequest, RateAttempt, compute_peak_answer

Edit = Callable[[Path], object]


def found(folder: Path, severity: Severity) -> set[str]:
    return {finding.rule for finding in result_of(folder).findings if finding.severity is severity}


def study_of(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(next(folder.rglob(STUDY_FILE)).read_text())
    return made


def sought(**changes: Any) -> Edit:
    """Change the request in the table and beside every run."""

    def change(folder: Path) -> None:
        for path in (*folder.rglob(STUDY_FILE), *folder.rglob(RATE_ATTEMPT_FILE)):
            put(**{f"sought__{name}": value for name, value in changes.items()})(path)

    return change


def leave_out(folder: Path, keep: Callable[[dict[str, Any]], bool], remove: bool = False) -> None:
    """Leave trials out of the table, with the answer that follows, and their folders if so
    wished.
    """
    (path,) = folder.rglob(STUDY_FILE)
    document = study_of(folder)
    if remove:
        for trial in document["trials"]:
            keep(trial) or shutil.rmtree(path.parent / trial["folder"])
    document["trials"] = [trial for trial in document["trials"] if keep(trial)]
    trials = [RateAttempt(**trial) for trial in document["trials"]]
    made = compute_peak_answer(PeakRequest(**document["sought"]), trials)
    document["answer"] = {name: getattr(made, name) for name in document["answer"]}
    path.write_text(json.dumps(document))


def valid(trial: dict[str, Any]) -> bool:
    return bool(trial["verdict"] == "VALID")


def not_first(trial: dict[str, Any]) -> bool:
    """All but the first run."""
    return not trial["folder"].endswith("trial-01")


def as_probe(folder: Path) -> None:
    """Tell the first INVALID run as a probe, in both documents."""
    (path,) = folder.rglob(STUDY_FILE)
    document = study_of(folder)
    trial = next(each for each in document["trials"] if not valid(each))
    trial["purpose"] = "probe"
    path.write_text(json.dumps(document))
    put(trial__purpose="probe")(path.parent / trial["folder"] / RATE_ATTEMPT_FILE)


def shortened(folder: Path) -> None:
    """Pass a probe as a run: its log asks for fewer queries."""
    (path,) = folder.rglob(STUDY_FILE)
    log = path.parent / study_of(folder)["trials"][0]["folder"] / DETAIL_LOG
    setting("effective_min_query_count", 100)(log)
    setting("effective_min_duration_ms", 1)(log)


def test_the_example_has_valid_and_invalid_runs_and_no_findings(tmp_path: Path) -> None:
    """Else every test below would pass by it."""
    peak(tmp_path)
    answer = study_of(tmp_path)["answer"]
    assert not result_of(tmp_path).findings and answer["valid"] and answer["invalid"]


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (lambda folder: leave_out(folder, valid), "peak.trials"),
        (lambda folder: leave_out(folder, valid, remove=True), "peak.trials"),
        (lambda folder: leave_out(folder, not_first, remove=True), "peak.trials"),
        (lambda folder: next(folder.rglob(QUERY_RECORD_FILE)).unlink(), "peak.trials"),
        (as_probe, "peak.trials"),
        (shortened, "peak.trials"),
        (sought(min_queries=1), "peak.answer"),
        (sought(min_duration_ms=1), "peak.answer"),
        (sought(of_round=False), "peak.answer"),
        (sought(bound_ns=500_000_000), "peak.answer"),
    ],
)
def test_a_search_that_was_edited_is_found(edit: Edit, rule: str, tmp_path: Path) -> None:
    """In the table and beside the runs alike."""
    peak(tmp_path)
    edit(tmp_path)
    assert rule in found(tmp_path, Severity.ERROR)


@pytest.mark.parametrize(
    ("edit", "found_words"),
    [
        (
            put(rows=[]),
            (
                "the run 'open/org/results/box/resnet50/Server/performance/run_1' in the study's"
                " folder"
            ),
        ),
        (put(note="closed division"), "note 'closed division'"),
    ],
)
def test_speed_alone_tells_all_its_runs_and_that_it_is_no_result(
    edit: Edit, found_words: str, tmp_path: Path
) -> None:
    """An INVALID run that is left out, or the sentence that is, would make a result of it."""
    speed(tmp_path)
    assert not result_of(tmp_path).findings
    edit(next(tmp_path.rglob(STUDY_FILE)))
    (finding,) = result_of(tmp_path).findings
    assert (finding.rule, finding.severity, finding.found) == (
        "speed.rows",
        Severity.ERROR,
        found_words,
    )


@pytest.mark.parametrize(
    "edit", [sought(tolerance=0.5), sought(tolerance=0.001), sought(seen=60.0)]
)
def test_runs_that_do_not_follow_from_one_another_are_a_warning(edit: Edit, tmp_path: Path) -> None:
    """Another version may have searched."""
    peak(tmp_path)
    edit(tmp_path)
    assert "peak.steps" in found(tmp_path, Severity.WARNING)


def answer_wrongly(folder: Path) -> None:
    """Have the accuracy run score less, beside a table that stays."""
    (labels,) = folder.rglob("labels.txt")
    labels.write_text(labels.read_text().replace("1", "3", 1))


def call_invalid(folder: Path) -> None:
    """Have LoadGen reject SingleStream."""
    setting("result_validity", "INVALID")(
        next(folder.rglob(f"SingleStream/performance/*/{DETAIL_LOG}"))
    )


def edit_table(edit: Edit) -> Edit:
    """Edit the table alone."""
    return lambda folder: edit(next(folder.rglob(STUDY_FILE)))


@pytest.mark.parametrize(
    ("edit", "found_words"),
    [
        (edit_table(first("rows", latency_ns={"p50": 1.0, "p90": 2.0, "p99": 3.0})), "p50 1.0"),
        (edit_table(first("rows", speed_up=2.0)), "speed_up 2.0 of torch fp32"),
        (edit_table(first("rows", difference={"top1": 0.1})), "difference top1 0.1"),
        (edit_table(first("rows", engine="fast")), "engine 'torch'"),
        (edit_table(first("rows", accuracy="", compliant=True)), "without runs"),
        (edit_table(put(reference={"top1": 1.0})), "is compliant with top1"),
        (answer_wrongly, "scores top1"),
        (call_invalid, "an INVALID run of torch fp32"),
    ],
)
def test_a_table_of_precisions_that_was_edited_is_found(
    edit: Edit, found_words: str, tmp_path: Path
) -> None:
    """In the table, in the logs, or in the ground truth."""
    precision(tmp_path)
    assert not result_of(tmp_path).findings
    edit(tmp_path)
    assert any(
        (finding.rule, finding.severity) == ("precision.rows", Severity.ERROR)
        and found_words in finding.found
        for finding in result_of(tmp_path).findings
    ), result_of(tmp_path).findings


def test_an_unfinished_table_of_precisions_is_a_warning(tmp_path: Path) -> None:
    precision(tmp_path)
    put(finished=False)(next(tmp_path.rglob(STUDY_FILE)))
    assert found(tmp_path, Severity.WARNING) == {"precision.rows"}
    assert not found(tmp_path, Severity.ERROR)


def put_first_trial(**changes: Any) -> Edit:
    """Change the first trial in the table and in its record."""

    def change(folder: Path) -> None:
        (path,) = folder.rglob(STUDY_FILE)
        document = study_of(folder)
        document["trials"][0] |= changes
        path.write_text(json.dumps(document))
        (record,) = folder.rglob(RATE_ATTEMPT_FILE)
        put(**{f"trial__{name}": value for name, value in changes.items()})(record)

    return change


@pytest.mark.parametrize(
    ("edit", "rules"),
    [
        (lambda folder: None, set()),
        (lambda folder: next(folder.rglob(TOKEN_RECORD_FILE)).unlink(), {"peak.trials"}),
        (put_first_trial(per_token_ns=1.0), {"peak.figures"}),
        (put_first_trial(over=7), {"peak.figures"}),
        (sought(per_token_ns=20_000_000), {"peak.trials", "peak.answer"}),
        (sought(per_token_ns=None), {"peak.trials", "peak.figures", "peak.answer"}),
        (sought(of_round=False), {"peak.answer"}),
    ],
)
def test_a_search_within_bounds_of_tokens_is_recomputed_from_them(
    tmp_path: Path, edit: Edit, rules: set[str]
) -> None:
    """Both bounds are the row's, and late answers are counted from tokens.npy."""
    write_token_peak(tmp_path)
    edit(tmp_path)
    assert found(tmp_path, Severity.ERROR) == rules
