"""Which published rounds are comparable for a workload, from rounds/compatibility.toml; each row
has its source.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from suite.files.layout import fold

FILE: Final = "compatibility.toml"
TRAINING: Final = "training"
INFERENCE: Final = "inference"


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Read the file: half -> workload -> names, groups, source."""
    return tomllib.loads((files("suite.rounds") / FILE).read_text("utf-8"))


def workload_of(half: str, name: str) -> str:
    """Return podium's name of a workload that a round calls differently; otherwise the name
    itself.
    """
    rows = table()[half].items()
    return next(
        (workload for workload, row in rows if fold(name) in {fold(each) for each in row["names"]}),
        name,
    )


def compatible(half: str, workload: str, one: str, other: str) -> bool:
    """Return whether results of two rounds are comparable."""
    groups = table()[half].get(workload, {}).get("groups", ())
    return one == other or any(one in group and other in group for group in groups)
