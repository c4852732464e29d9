"""The day on which a result was measured, as its logs state it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from compliance.logs.log_index import LogIndex
from compliance.logs.mllog.mllog_lines import read_mllog_records
from compliance.logs.source_file import SourceFile
from compliance.results.indexed_result import IndexedResult
from submissions.report.records.loadgen_runs import list_run_folders
from suite.errors import PodiumError
from suite.files.layout import DETAIL_LOG
from suite.result import Result
from suite.units import MS_PER_S

DATETIME_KEY: Final = "test_datetime"
"""Source: mlcommons/inference, loadgen/logging.cc: UTC, `%Y-%m-%dT%H:%M:%SZ`."""
DAY_DIGITS: Final = len("2026-01-31")


def read_result_day(result: IndexedResult, score: Result) -> str:
    """Return the day of a result's last run, as in 2026-01-31, UTC; empty if no log states it."""
    try:
        return max(filter(None, iterate_run_days(result, score)), default="")
    except PodiumError:  # the findings name the file
        return ""


def iterate_run_days(result: IndexedResult, score: Result) -> Iterator[str]:
    """Yield the day of each run; empty if its log does not state it."""
    if result.scenario is not None:
        for folder in list_run_folders(result, score):
            index = LogIndex(read_mllog_records(SourceFile(folder / DETAIL_LOG)))
            yield keep_valid_day(str(index.find_value(DATETIME_KEY) or ""))
        return
    for log in result.training_logs:
        first = next(iter(read_mllog_records(SourceFile(log))), None)
        if first is not None:
            yield format_run_day(first.event.time_ms / MS_PER_S)
        else:
            yield ""


def keep_valid_day(text: str) -> str:
    """Return the day of a date and time; empty if it is none."""
    try:
        return datetime.fromisoformat(text[:DAY_DIGITS]).date().isoformat()
    except ValueError:
        return ""


def format_run_day(seconds: float) -> str:
    """Format seconds since 1970 as a day; empty if no calendar has it."""
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""
