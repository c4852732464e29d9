"""The day of a run, its RESULT line, its clock and the counts of its logs: what was edited shows,
what time zones and other years explain does not.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from making_inference import LOADS, SINGLE, write_run
from making_training import START_MS, Record, double, drop, move, new, old, older, put, run

from compliance.documents.timestamps import find_date_problem
from compliance.judge import Judge
from compliance.kinds.inference_text.rules.audit import check_printed_counts
from compliance.logs.source_file import SourceFile
from compliance.verdict import Finding, Severity
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG

DAY_S = 86_400
YEAR_S = 365.25 * DAY_S
PUBLISHED = date(2020, 7, 29)
PUBLISHED_S = 1_595_980_800


def found(folder: Path, text: str, rule: str, round_name: str | None = None) -> list[Finding]:
    path = folder / "result_0.txt"
    path.write_text(text)
    return [
        finding
        for finding in Judge(round_name).judge_path(str(path)).findings
        if finding.rule == rule
    ]


def severities(findings: list[Finding]) -> list[str]:
    return [finding.severity.value for finding in findings]


@pytest.mark.parametrize(
    ("seconds", "severity"),
    [
        (PUBLISHED_S - 0.3 * YEAR_S, None),
        (PUBLISHED_S + 1.9 * YEAR_S, None),
        (PUBLISHED_S - 2.1 * YEAR_S, Severity.WARNING),
        (PUBLISHED_S - 11 * YEAR_S, Severity.ERROR),
    ],
)
def test_years_from_the_round_are_told_and_decades_are_an_error(
    seconds: float, severity: Severity | None
) -> None:
    wrong = find_date_problem(seconds, PUBLISHED)
    assert (wrong and wrong.severity) == severity


def test_tomorrow_may_be_today_elsewhere() -> None:
    """No alarm for a clock that shows the local time of another place."""
    assert find_date_problem(time.time() + 14 * 3600) is None
    assert find_date_problem(time.time() + 3 * DAY_S) is not None


def test_a_run_of_years_later_is_a_warning(tmp_path: Path) -> None:
    """Who runs a round's rules later on breaks none of them."""
    assert severities(
        found(tmp_path, new(run(), START_MS + int(3 * YEAR_S * 1000)), "log.date", "training-v0.7")
    ) == ["warning"]


RESULT = "RESULT,IMAGE_CLASSIFICATION,,{seconds},,{date}\n"
BEGAN = "2020-05-20 06:40:00 PM"


@pytest.mark.parametrize(
    ("seconds", "date", "expected"),
    [
        (124, BEGAN, []),
        (170, "2020-05-21 03:40:00 AM", []),
        (170, "", []),
        (122, BEGAN, ["error"]),
        (9000, BEGAN, ["warning"]),
        (170, "2020-05-25 06:40:00 PM", ["error"]),
        (170, "2020-15-45 06:40:00 PM", []),
    ],
)
@pytest.mark.parametrize("write", [new, lambda records: new(records).replace("\n", "\r\n")])
def test_a_result_line_is_held_against_the_run(
    tmp_path: Path,
    seconds: int,
    date: str,
    expected: list[str],
    write: Callable[[list[Record]], str],
) -> None:
    """A run_stop that was set back leaves the script's own seconds behind."""
    text = write(run()) + RESULT.format(seconds=seconds, date=date)
    findings = found(tmp_path, text, "log.result")
    assert severities(findings) == expected
    assert all(finding.line == text.count("\n") for finding in findings)


def whole(records: list[Record]) -> list[Record]:
    return [replace(record, after_ms=record.after_ms // 1000 * 1000) for record in records]


def test_a_clock_without_milliseconds_is_told(tmp_path: Path) -> None:
    assert severities(found(tmp_path, new(whole(run())), "log.rounded")) == ["warning"]
    assert severities(found(tmp_path, old(whole(run()), START_MS), "log.rounded")) == ["warning"]


@pytest.mark.parametrize("text", [new(run()), new(whole(run()), time="time_s"), older()])
def test_dialects_of_whole_seconds_and_plain_clocks_are_let_be(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text, "log.rounded") == []


def test_a_cache_that_is_told_cleared_in_the_run_is_a_warning_where_its_time_is_earlier(
    tmp_path: Path,
) -> None:
    """Lines of other processes are written late; one that alone says that caches were cleared
    should not be.
    """
    records = move("cache_clear", "run_start", keep_time=True)(run())
    assert severities(found(tmp_path, new(records), "log.cache")) == ["warning"]
    assert severities(
        found(tmp_path, new(move("cache_clear", "block_start")(run())), "log.cache")
    ) == ["error"]


def test_several_seeds_of_one_run_are_told_and_repeats_are_not(tmp_path: Path) -> None:
    assert severities(found(tmp_path, new(double("seed", value=7)(run())), "log.seed")) == [
        "warning"
    ]
    assert found(tmp_path, new(double("seed")(run())), "log.seed") == []


def test_a_seed_that_one_log_of_a_set_lacks_is_told(tmp_path: Path) -> None:
    for number in range(5):
        records = run(
            number=number,
            scores=(0.42 + number / 1000, 0.55 + number / 999, 0.7601 + number / 1000),
        )
        text = new(drop("seed")(records) if number == 3 else records, START_MS + number * 3_600_000)
        (tmp_path / f"result_{number}.txt").write_text(text)
    told = [
        (finding.rule, finding.severity.value, Path(finding.file).name)
        for finding in Judge().judge_path(str(tmp_path)).findings
    ]
    assert told == [("runs.seeds", "warning", "result_3.txt")]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((0.76, 0.76), []),
        ((0.7, 0.7, 0.7), ["warning"]),
        ((0.4, 0.9), ["warning"]),
        ((0.1, 0.78), []),
    ],
)
def test_results_that_training_does_not_give_are_told(
    tmp_path: Path, scores: tuple[float, ...], expected: list[str]
) -> None:
    assert severities(found(tmp_path, new(run(scores=scores)), "log.plausible")) == expected


def test_an_evaluation_that_takes_no_time_is_told(tmp_path: Path) -> None:
    """Accepted logs have such: it is no alarm."""
    assert severities(
        found(tmp_path, new(put("eval_stop", later=-2001)(run())), "log.instant")
    ) == ["info"]


def served(folder: Path, old_text: str, new_text: str, name: str = DETAIL_LOG) -> list[Finding]:
    write_run(folder / "SingleStream" / "performance" / "run_1", LOADS[SINGLE], "Performance")
    path = folder / "SingleStream" / "performance" / "run_1" / name
    text = path.read_text()
    assert old_text in text, text[:3000]
    path.write_text(text.replace(old_text, new_text))
    return list(Judge().judge_path(str(path.parent)).findings)


@pytest.mark.parametrize(
    ("stamp", "other", "expected"),
    [
        ("Date + time of test: 2020-01-15", "Date + time of test: 2020-01-14", []),
        (
            "Date + time of test: 2020-01-15",
            "Date + time of test: 2020-01-12",
            ["warning", "warning"],
        ),
        ("Date + time of test: 2020-01-15", "Date + time of test: yesterday", []),
        (
            "build_date_local",
            "build_date_utc : 2020-02-01T10:00:00.000000\nbuild_date_local",
            ["warning"],
        ),
    ],
)
def test_stamps_of_one_run_are_of_one_day(
    tmp_path: Path, stamp: str, other: str, expected: list[str]
) -> None:
    if "build" in stamp:
        other = (
            'build_date_utc : 2020-02-01T10:00:00.000000\n"pid": 7, "tid": 7, "ts": 9000ns :'
            f" {stamp}"
        )
    assert (
        severities(
            [
                finding
                for finding in served(tmp_path, stamp, other)
                if finding.rule == "inference-text.date"
            ]
        )
        == expected
    )


def test_counts_of_the_summary_are_those_of_the_detail_log(tmp_path: Path) -> None:
    """Three warnings where the log has one are a claim that its own log contradicts."""
    told = served(tmp_path, "No warnings encountered", "3 warnings encountered", SUMMARY_LOG)
    assert [(finding.rule, finding.required) for finding in told] == [
        ("inference-text.errors", "0, as in the detail log")
    ]


def test_example_files_bear_a_day_that_has_come() -> None:
    """Else the examples would break their own rules."""
    examples = Path(__file__).parents[2] / "examples" / "valid" / "training.clock" / "result_0.txt"
    first = json.loads(examples.read_text().partition("\n")[0].removeprefix(":::MLLOG "))
    assert find_date_problem(first["time_ms"] / 1000) is None


COUNTS = """num_perf_log_entries = {entries}
num_perf_log_qsl_idx_match = {matches}
num_perf_log_data_mismatch = {differing}
num_missing_qsl_idxs = {missing}
TEST PASS
"""


@pytest.mark.parametrize(
    ("entries", "matches", "differing", "missing", "faults"),
    [
        (100, 100, 0, 0, 0),
        (100, 60, 0, 40, 0),
        (100, 90, 0, 0, 1),
        (100, 100, 7, 0, 1),
        (0, 0, 0, 0, 1),
        (100, 90, 3, 0, 2),
    ],
)
def test_a_test_that_passed_has_numbers_that_say_so(
    tmp_path: Path, entries: int, matches: int, differing: int, missing: int, faults: int
) -> None:
    """Some accepted tests met samples that the accuracy run had not seen: these are counted
    apart.
    """
    text = COUNTS.format(entries=entries, matches=matches, differing=differing, missing=missing)
    told = list(check_printed_counts(SourceFile(tmp_path / "verify_accuracy.txt"), text))
    assert [fault.severity for fault in told] == [None] * faults
