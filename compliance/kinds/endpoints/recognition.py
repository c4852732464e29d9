"""Names of the files of MLPerf Endpoints: of a run of its client, and of a submission of curves."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.recognition.path_kind import PathKind, RecognisedPath, has_loadgen_logs
from compliance.recognition.round_evidence import RoundEvidence
from compliance.recognition.tree_path import is_file

ENDPOINTS_CONFIG: Final = "config.yaml"
ENDPOINTS_RUN_FOLDERS: Final = ("performance", "performance/run_1")
ENDPOINTS_SUMMARY_FILES: Final = ("result_summary.json", "results_summary.json")
"""Names of the Endpoints client's summary. Source: entries of MLPerf Inference v6.1."""
ENDPOINTS_SUMMARY_PATHS: Final = tuple(
    f"{folder}/{name}" for folder in ENDPOINTS_RUN_FOLDERS for name in ENDPOINTS_SUMMARY_FILES
)
ENDPOINTS_RUN_FILES: Final = frozenset(
    {
        ENDPOINTS_CONFIG,
        "events.jsonl",
        "events.jsonl.gz",
        "report.txt",
        "sample_idx_map.json",
        "metrics/final_snapshot.json",
        *ENDPOINTS_SUMMARY_PATHS,
    }
)
"""Files of a run of the Endpoints client, below its folder."""
ENDPOINTS_ENTRY_FILES: Final = frozenset({*ENDPOINTS_SUMMARY_FILES, "accuracy_results.json"})
"""Names of files in the folders of an entry's runs."""
POINT_FILE: Final = "point.yaml"
"""What is disclosed of a point of a curve. Source: Endpoints rules, 8.1."""
POINT_SUMMARY: Final = "result_summary.json"
RESULTS_FOLDER: Final = "results"
POINT_FOLDER_PATTERN: Final = re.compile(r"r([0-9]{1,9})")
"""Name of a point's folder."""
POINT_FOLDER_NAME: Final = "r<N>, such as r64, with the requests in flight in at most nine digits"
"""The same in words."""
POINT_PATHS: Final = (POINT_FILE, *ENDPOINTS_SUMMARY_FILES, *ENDPOINTS_SUMMARY_PATHS)
"""Files below a folder that show that it is meant as a point."""
ENDPOINTS_ROUND: Final = "endpoints"
"""Name of the rules about any run of the Endpoints client."""


def find_endpoints_run(path: Path) -> Path | None:
    """Return the folder of the Endpoints client's run that a file belongs to; None for others."""
    return next(
        (
            folder
            for folder in path.parents[:3]
            if str(path.relative_to(folder)) in ENDPOINTS_RUN_FILES and is_endpoints_run(folder)
        ),
        None,
    )


def is_endpoints_run(path: Path) -> bool:
    """Return whether a folder is a run of the Endpoints client: it has the client's configuration
    and summary, and no LoadGen logs.
    """
    return is_file(path / ENDPOINTS_CONFIG) and find_endpoints_summary(path) is not None


def find_endpoints_summary(folder: Path) -> Path | None:
    """Return the Endpoints client's summary in the folder of a run or a scenario; None if there is
    none, or LoadGen's logs are there as well.
    """
    if any(has_loadgen_logs(folder / name) for name in ENDPOINTS_RUN_FOLDERS):
        return None
    summaries = (folder / name for name in ENDPOINTS_SUMMARY_PATHS)
    return next((path for path in summaries if is_file(path)), None)


@dataclass(frozen=True, slots=True)
class EndpointsPlaces:
    """Recognises runs of the Endpoints client."""

    rounds: Mapping[PathKind, RoundEvidence]
    summary_files: Sequence[str] = ENDPOINTS_SUMMARY_FILES
    run_files: Set[str] = ENDPOINTS_ENTRY_FILES

    def find_part(self, path: Path, folder: bool) -> RecognisedPath | None:
        """Return None: a run is recognised as one outside of trees alone."""
        return None

    def find_loose_run(self, path: Path, folder: bool) -> RecognisedPath | None:
        """Recognise a run, and a file in one."""
        if folder and not is_endpoints_run(path):
            return None
        run = path if folder else find_endpoints_run(path)
        if not run:
            return None
        return RecognisedPath(path=run, kind=PathKind.ENDPOINTS_RUN)

    def is_judgeable_part(self, folder: Path) -> bool:
        """Return whether a folder is a run."""
        return is_endpoints_run(folder)


PLACES: Final = EndpointsPlaces(
    {PathKind.ENDPOINTS_RUN: RoundEvidence(ENDPOINTS_ROUND, "the Endpoints client's summary")}
)
