"""Runs of the MLPerf Endpoints client: several in one folder, and requests that failed."""

import json
import shutil
from pathlib import Path

from examples import EXAMPLES
from kinds.endpoints import SNAPSHOT, SUMMARY, edited

from compliance.judge import Judge
from compliance.verdict import Severity, Verdict


def test_a_folder_of_runs_is_judged_run_by_run(tmp_path: Path) -> None:
    base = EXAMPLES / "base" / "endpoints" / "run"
    for name in ("one", "offline"):
        shutil.copytree(base, tmp_path / name)
    result = Judge().judge_path(str(tmp_path))
    assert result.verdict is Verdict.VALID and len(result.results) == 2


def test_failed_requests_and_cut_answers_are_told_with_the_rate_of_whole_ones(
    tmp_path: Path,
) -> None:
    """30 of 160 requests are answered with an error, and 17 answers are cut."""
    run = tmp_path / "run"
    shutil.copytree(EXAMPLES / "base" / "endpoints" / "run", run)
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    complete = [each for each in lines if each["event_type"] == "sample.complete"]
    failed = {each["sample_uuid"] for each in complete[:30]}
    for each in complete[:47]:
        each["finish_reason"] = None
    text = ""
    for each in lines:
        if each["event_type"] == "sample.complete" and each["sample_uuid"] in failed:
            text += json.dumps({**each, "event_type": "error.http", "data": "503"}) + "\n"
        text += json.dumps(each) + "\n"
    (run / "events.jsonl").write_text(text)
    edited(SUMMARY, "n_samples_failed", value=30)(run)
    edited(SUMMARY, "finish_reason_counts", "stop", value=160 - 47)(run)
    edited(SNAPSHOT, "metrics", 2, "value", value=30)(run)
    result = Judge().judge_path(str(run))
    (error,) = [each for each in result.findings if each.severity is Severity.ERROR]
    assert error.rule == "endpoints.failed"
    assert error.found.startswith("30 samples failed") and "whole answers/s" in error.found
    (cut,) = [each for each in result.findings if each.rule == "endpoints.cut"]
    assert cut.found.startswith("17 of 160 answers")
