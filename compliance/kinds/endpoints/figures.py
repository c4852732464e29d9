"""What tables and reports show of a run of the Endpoints client beside its score."""

from pathlib import Path
from typing import Final

from compliance.kinds.endpoints.documents.result_summary import (
    ResultSummary,
    Series,
    read_result_summary,
)
from compliance.kinds.endpoints.recognition import find_endpoints_summary
from compliance.logs.source_file import SourceFile
from compliance.results.run_figures import (
    FIRST_TOKEN_NAME,
    LOADGEN_PERCENTILES,
    OUTPUT_TOKEN_NAME,
    LoadGenFigures,
)
from suite.errors import JudgedError
from suite.units import NS_PER_MS

ENDPOINTS_CLIENT: Final = "the Endpoints client"


def list_client_runs(folder: Path) -> list[Path]:
    """Return the folder of a run, which is its only one."""
    return [folder]


def read_client_run(folder: Path, _: str) -> LoadGenFigures:
    """Read what the client measured; JudgedError if the folder is no run of its."""
    summary = find_endpoints_summary(folder)
    if summary is None:
        raise JudgedError(f"{folder}: no run of the Endpoints client")
    return read_client_figures(folder, summary)


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
