"""Names of the files of a run of the MLPerf Endpoints client."""

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
