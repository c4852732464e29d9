"""Names of the files of MLPerf Endpoints: of a run of its client, and of a submission of curves."""

import re
from typing import Final

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
