"""The machine of podium's own results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compliance.bundle.manifest import read_run_environment_or_none
from compliance.recognition.tree_path import TreePosition


def describe_podium_system(path: Path, place: TreePosition, round_name: str) -> Mapping[str, Any]:
    """Return the hardware of a run's environment, the same in each place and round; empty if the
    description cannot be read.
    """
    found = read_run_environment_or_none(path)
    return found["hardware"] if found else {}
