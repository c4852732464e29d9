"""Which published rounds are comparable for a workload, from rounds/compatibility.toml; each row
has its source.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from suite.files.layout import fold_name

COMPATIBILITY_FILE: Final = "compatibility.toml"
TRAINING_HALF: Final = "training"
INFERENCE_HALF: Final = "inference"


@cache
def read_compatibility_table() -> Mapping[str, Mapping[str, Any]]:
    """Read the file: half -> workload -> names, groups, source."""
    return tomllib.loads((files("suite.rounds") / COMPATIBILITY_FILE).read_text("utf-8"))


def find_podium_workload(half: str, name: str) -> str:
    """Return podium's name of a workload that a round calls differently; otherwise the name
    itself.
    """
    rows = read_compatibility_table()[half].items()
    return next(
        (
            workload
            for workload, row in rows
            if fold_name(name) in {fold_name(each) for each in row["names"]}
        ),
        name,
    )


def has_comparable_rounds(half: str, workload: str, one: str, other: str) -> bool:
    """Return whether results of two rounds are comparable."""
    groups = read_compatibility_table()[half].get(workload, {}).get("groups", ())
    return one == other or any(one in group and other in group for group in groups)
