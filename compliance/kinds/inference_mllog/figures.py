"""What tables and reports show of results of this kind beside their scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compliance.kinds.endpoints.figures import read_client_figures
from compliance.kinds.endpoints.recognition import ENDPOINTS_SUMMARY_FILES, find_endpoints_summary
from compliance.kinds.inference_mllog.documents.entry_documents import read_mllog_system
from compliance.kinds.inference_mllog.documents.run import read_mllog_run
from compliance.kinds.inference_mllog.round import load_inference_mllog_round
from compliance.recognition.loadgen_folders import find_performance_folders
from compliance.recognition.path_kind import has_loadgen_logs
from compliance.recognition.tree_path import TreePosition
from compliance.results.run_figures import (
    NO_VERDICT,
    PERCENTILE_LOG_KEYS,
    LoadGenFigures,
    select_latencies,
    select_token_latencies,
)
from suite.loadgen.headline import VERDICT_KEY
from suite.workload import Mode


def describe_mllog_system(path: Path, place: TreePosition, round_name: str) -> Mapping[str, Any]:
    """Return the fields of a system's description; empty if it cannot be read."""
    return read_mllog_system(path, place, load_inference_mllog_round(round_name)).fields or {}


def find_mllog_benchmark(round_name: str, folder_name: str) -> str | None:
    """Return the round's name of a benchmark, of which a folder may have another spelling."""
    return load_inference_mllog_round(round_name).find_benchmark(folder_name)


def list_mllog_runs(folder: Path) -> list[Path]:
    """Return the folders of an entry's performance runs, of LoadGen or of the Endpoints client."""
    if summary := find_endpoints_summary(folder):
        return [summary.parent]
    return list(find_performance_folders(folder))


def read_mllog_figures(folder: Path, round_name: str) -> LoadGenFigures:
    """Read a performance run of LoadGen or of the Endpoints client."""
    if summary := find_client_summary(folder):
        return read_client_figures(folder, summary)
    run = read_mllog_run(folder, Mode.PERFORMANCE, load_inference_mllog_round(round_name))
    return LoadGenFigures(
        folder=folder,
        verdict=str(run.find_value(VERDICT_KEY) or NO_VERDICT),
        percentiles=select_latencies(run.find_number, PERCENTILE_LOG_KEYS),
        token_latencies=select_token_latencies(run.find_number),
    )


def find_client_summary(folder: Path) -> Path | None:
    """Return the Endpoints client's summary in a folder without LoadGen's logs; None if there is
    none.
    """
    if has_loadgen_logs(folder):
        return None
    paths = (folder / name for name in ENDPOINTS_SUMMARY_FILES)
    return next((path for path in paths if path.is_file()), None)
