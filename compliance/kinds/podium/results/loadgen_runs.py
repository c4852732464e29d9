"""What LoadGen measured in podium's own performance runs, from its detail log."""

from collections.abc import Callable, Mapping
from pathlib import Path

from compliance.kinds.podium.documents.inference import list_voiding_errors
from compliance.kinds.podium.results.log_values import read_loadgen_run_record
from compliance.logs.log_index import LogIndex
from compliance.logs.mllog.mllog_lines import read_mllog_records
from compliance.logs.source_file import SourceFile
from compliance.results.run_figures import (
    PERCENTILE_LOG_KEYS,
    LoadGenFigures,
    select_latencies,
    select_token_latencies,
)
from suite.files.layout import DETAIL_LOG
from suite.loadgen.headline import VERDICT_KEY

VOIDED_VERDICT = "INVALID"
"""Of a run with errors that void it, whatever LoadGen calls it."""


def open_detail_log(folder: Path) -> Callable[[str], float | None]:
    """Return a function that looks up the numbers of a detail log of podium's by key."""
    return LogIndex(read_mllog_records(SourceFile(folder / DETAIL_LOG))).find_number


def read_loadgen_percentiles(folder: Path) -> Mapping[float, float]:
    """Return percentiles and latencies in ms from a detail log of podium's: those of queries, if
    the log also has those of samples.
    """
    return select_latencies(open_detail_log(folder), PERCENTILE_LOG_KEYS)


def read_podium_run(folder: Path, round_name: str) -> LoadGenFigures:
    """Read a performance run, which is the same in each round; JudgedError if podium's record of
    it cannot be read.
    """
    records = list(read_mllog_records(SourceFile(folder / DETAIL_LOG)))
    index = LogIndex(records)
    find_number, verdict = index.find_number, str(index.find_value(VERDICT_KEY) or "")
    read_loadgen_run_record(folder)
    return LoadGenFigures(
        folder=folder,
        verdict=VOIDED_VERDICT if list_voiding_errors(records) else verdict,
        percentiles=select_latencies(find_number, PERCENTILE_LOG_KEYS),
        token_latencies=select_token_latencies(find_number),
    )
