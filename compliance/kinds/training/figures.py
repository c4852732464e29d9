"""What tables and reports show of results of this kind beside their scores."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compliance.kinds.training.documents.log import GLOBAL_BATCH_KEY, read_published_log
from compliance.kinds.training.documents.system_description import read_described_system
from compliance.kinds.training.round import load_training_round
from compliance.recognition.tree_path import TreePosition
from compliance.results.indexed_result import IndexedResult
from suite.result import MadeWith


def describe_training_system(path: Path, place: TreePosition, round_name: str) -> Mapping[str, Any]:
    """Return the fields of a system's description; empty if it cannot be read."""
    return read_described_system(path, place, load_training_round(round_name)).table or {}


def read_published_training_traits(result: IndexedResult, round_name: str) -> MadeWith:
    """Read the batch of a run set from its first log."""
    log = read_published_log(result.training_logs[0], load_training_round(round_name))
    return MadeWith(said={"batch": log.find_value(GLOBAL_BATCH_KEY)})


def list_training_benchmarks(round_name: str) -> Iterable[str]:
    """List the benchmarks of a round."""
    return load_training_round(round_name).benchmarks
