"""Recognise an entry of MLPerf Endpoints, measured without LoadGen, in a published round."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from compliance.recognition.tree_path import is_file
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG

RUN_FOLDERS: Final = ("performance", "performance/run_1")
ENDPOINTS_SUMMARIES: Final = ("result_summary.json", "results_summary.json")
"""Names of the Endpoints client's summary. Source: entries of MLPerf Inference v6.1."""
LOADGEN_LOGS: Final = (DETAIL_LOG, SUMMARY_LOG)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsEntry:
    """An entry that was measured with the Endpoints client, not with LoadGen."""

    document_name: ClassVar[str] = "an entry of MLPerf Endpoints"

    folder: Path
    summary: Path


def find_endpoints_entry(folder: Path) -> EndpointsEntry | None:
    """Return the Endpoints entry in a scenario's folder; None if there is none, or LoadGen's logs
    are there as well.
    """
    runs = [folder / name for name in RUN_FOLDERS]
    if any(is_file(run / name) for run in runs for name in LOADGEN_LOGS):
        return None
    summaries = (run / name for run in runs for name in ENDPOINTS_SUMMARIES)
    summary = next((path for path in summaries if is_file(path)), None)
    return EndpointsEntry(folder=folder, summary=summary) if summary else None
