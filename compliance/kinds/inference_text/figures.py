"""What tables and reports show of results of this kind beside their scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from compliance.kinds.inference_text.documents.organisation import read_inference_text_system
from compliance.kinds.inference_text.logs.legacy_summary import read_legacy_summary
from compliance.kinds.inference_text.round import load_inference_text_round
from compliance.logs.source_file import SourceFile
from compliance.recognition.tree_path import TreePosition
from compliance.results.run_figures import (
    LOADGEN_PERCENTILES,
    NO_VERDICT,
    LoadGenFigures,
    select_latencies,
)
from suite.files.layout import SUMMARY_LOG
from suite.loadgen.headline import (
    SUMMARY_VERDICT_NAME,
    build_percentile_summary_names,
)

PERCENTILE_SUMMARY_NAMES: Final = {
    percent: build_percentile_summary_names(percent) for percent in LOADGEN_PERCENTILES
}


def describe_text_system(path: Path, place: TreePosition, round_name: str) -> Mapping[str, Any]:
    """Return the fields of a system's description; empty if it cannot be read."""
    return (
        read_inference_text_system(path, place, load_inference_text_round(round_name)).fields or {}
    )


def read_text_figures(folder: Path, round_name: str) -> LoadGenFigures:
    """Read a performance run from LoadGen's summary, which is the same in each round."""
    summary = read_legacy_summary(SourceFile(folder / SUMMARY_LOG))
    stated = summary.values.get(SUMMARY_VERDICT_NAME)
    return LoadGenFigures(
        folder=folder,
        verdict=stated.text if stated else NO_VERDICT,
        percentiles=select_latencies(summary.find_number, PERCENTILE_SUMMARY_NAMES),
    )
