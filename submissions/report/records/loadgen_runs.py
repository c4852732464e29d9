"""What LoadGen, or the Endpoints client, measured in a performance run, from the judge's documents
of any round: percentiles of latency, also of tokens, and LoadGen's verdict.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from compliance.documents.endpoints.result_summary import (
    ResultSummary,
    Series,
    read_result_summary,
)
from compliance.documents.headline import group_records_by_key
from compliance.documents.inference_mllog.run import read_mllog_run
from compliance.documents.inference_text.entry import find_performance_folders
from compliance.documents.podium.training import is_finite_number
from compliance.logs.loadgen.legacy_summary import read_legacy_summary
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import SourceFile
from compliance.recognition.endpoints_files import ENDPOINTS_SUMMARY_FILES
from compliance.recognition.path_kind import find_endpoints_summary, has_loadgen_logs
from submissions.report.records.queries import LOADGEN_PERCENTILES
from submissions.result_index import IndexedResult
from submissions.score import log_values
from submissions.score.score import Score
from suite import registry
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.loadgen.headline import (
    FIRST_TOKEN_KEY,
    OUTPUT_TOKEN_KEY,
    SUMMARY_VERDICT_NAME,
    VERDICT_KEY,
    build_percentile_keys,
    build_percentile_summary_names,
)
from suite.rounds import RoundKind
from suite.units import NS_PER_MS
from suite.workload import Mode

PERCENTILE_LOG_KEYS: Final = {
    percent: build_percentile_keys(percent) for percent in LOADGEN_PERCENTILES
}
PERCENTILE_SUMMARY_NAMES: Final = {
    percent: build_percentile_summary_names(percent) for percent in LOADGEN_PERCENTILES
}
FIRST_TOKEN_NAME: Final = "time to first token (TTFT)"
OUTPUT_TOKEN_NAME: Final = "time per output token (TPOT)"
TOKEN_LATENCY_KEYS: Final = {
    FIRST_TOKEN_NAME: FIRST_TOKEN_KEY,
    OUTPUT_TOKEN_NAME: OUTPUT_TOKEN_KEY,
}
"""Name of a token's latency -> its key in the detail log, by percentile."""
NO_VERDICT: Final = "-"
ENDPOINTS_CLIENT: Final = "the Endpoints client"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenFigures:
    """One performance run as measured by LoadGen; latencies in ms."""

    folder: Path
    measured_by: str = "LoadGen"
    """The program that issued the queries."""
    verdict: str = NO_VERDICT
    """VALID or INVALID, as LoadGen printed it."""
    percentiles: Mapping[float, float] = field(default_factory=dict)
    """Percentile -> latency of queries, or of samples if the log has no others."""
    token_latencies: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    """Name -> percentile -> latency; empty if LoadGen did not count tokens."""


def list_run_folders(result: IndexedResult, score: Score) -> list[Path]:
    """Return the folders of a result's performance runs; those of a published round may have their
    logs directly in `performance`.
    """
    if registry.load_round_kind(score.round) is RoundKind.PODIUM:
        return result.performance_folders
    if summary := find_endpoints_summary(result.folder):
        return [summary.parent]
    return list(find_performance_folders(result.folder))


def read_loadgen_figures(folder: Path, round_name: str) -> LoadGenFigures:
    """Read one performance run with the reader of its round; JudgedError if podium's record of its
    own run cannot be read.
    """
    match registry.load_round_kind(round_name):
        case RoundKind.INFERENCE_TEXT:
            legacy = read_legacy_summary(SourceFile(folder / SUMMARY_LOG))
            stated = legacy.values.get(SUMMARY_VERDICT_NAME)
            return LoadGenFigures(
                folder=folder,
                verdict=stated.text if stated else NO_VERDICT,
                percentiles=select_latencies(legacy.find_number, PERCENTILE_SUMMARY_NAMES),
            )
        case RoundKind.INFERENCE_MLLOG if summary := find_client_summary(folder):
            return read_client_figures(folder, summary)
        case RoundKind.INFERENCE_MLLOG:
            run = read_mllog_run(
                folder, Mode.PERFORMANCE, registry.load_inference_mllog_round(round_name)
            )
            return LoadGenFigures(
                folder=folder,
                verdict=str(run.find_value(VERDICT_KEY) or NO_VERDICT),
                percentiles=select_latencies(run.find_number, PERCENTILE_LOG_KEYS),
                token_latencies=select_token_latencies(run.find_number),
            )
        case _:
            find_number = open_detail_log(folder)
            return LoadGenFigures(
                folder=folder,
                verdict=log_values.read_loadgen_run_record(folder).verdict,
                percentiles=select_latencies(find_number, PERCENTILE_LOG_KEYS),
                token_latencies=select_token_latencies(find_number),
            )


def find_client_summary(folder: Path) -> Path | None:
    """Return the Endpoints client's summary in a folder without LoadGen's logs; None if there is
    none.
    """
    if has_loadgen_logs(folder):
        return None
    paths = (folder / name for name in ENDPOINTS_SUMMARY_FILES)
    return next((path for path in paths if path.is_file()), None)


def read_client_figures(folder: Path, path: Path) -> LoadGenFigures:
    """Read a run of the Endpoints client, which prints no verdict."""
    summary = read_result_summary(SourceFile(path)) or ResultSummary()
    tokens = {FIRST_TOKEN_NAME: summary.ttft, OUTPUT_TOKEN_NAME: summary.tpot}
    return LoadGenFigures(
        folder=folder,
        measured_by=ENDPOINTS_CLIENT,
        percentiles=select_client_latencies(summary.latency),
        token_latencies={
            name: found for name, each in tokens.items() if (found := select_client_latencies(each))
        },
    )


def select_client_latencies(series: Series) -> dict[float, float]:
    """Return percentile -> latency in ms, of the percentiles that LoadGen has; those that are not
    above 0 are left out.
    """
    found = {percent: series.percentiles.get(f"{percent:.1f}") for percent in LOADGEN_PERCENTILES}
    return {percent: value / NS_PER_MS for percent, value in found.items() if value and value > 0}


def open_detail_log(folder: Path) -> Callable[[str], float | None]:
    """Return a function that looks up the numbers of a detail log of podium's by key."""
    index = group_records_by_key(mllog_lines.read_mllog_records(SourceFile(folder / DETAIL_LOG)))

    def find_number(key: str) -> float | None:
        return next(
            (float(each.value) for each in index.get(key, ()) if is_finite_number(each.value)),
            None,
        )

    return find_number


def read_loadgen_percentiles(folder: Path) -> Mapping[float, float]:
    """Return percentiles and latencies in ms from a detail log of podium's: those of queries, if
    the log also has those of samples.
    """
    return select_latencies(open_detail_log(folder), PERCENTILE_LOG_KEYS)


def select_token_latencies(
    find_number: Callable[[str], float | None],
) -> dict[str, Mapping[float, float]]:
    """Return name -> percentile -> latency in ms of tokens; empty if LoadGen did not count them."""
    return {
        name: found
        for name, key in TOKEN_LATENCY_KEYS.items()
        if (
            found := select_latencies(
                find_number,
                {percent: (key.format(percent),) for percent in LOADGEN_PERCENTILES},
            )
        )
    }


def select_latencies(
    find_number: Callable[[str], float | None], names: Mapping[float, Sequence[str]]
) -> dict[float, float]:
    """Return percentile -> latency in ms: of several names of a percentile, the first that is
    logged counts; those that are not above 0 are left out.
    """
    found = (
        (percent, next(filter(None, map(find_number, keys)), 0.0))
        for percent, keys in names.items()
    )
    return {percent: value / NS_PER_MS for percent, value in found if value > 0}
