"""podium as a library: `podium.load(PATH)` returns results as records
(docs/reference/python.md); and the name for `python -m podium`.

Everything else is in the five packages beside it, and is no stable interface.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from suite.errors import JudgedError, MissingError, PodiumError

if TYPE_CHECKING:
    from podium.results import Results
    from suite.result import Result as ResultRecord

__all__ = ["JudgedError", "MissingError", "PodiumError", "ResultRecord", "Results", "load"]


def load(path: str | Path) -> "Results":
    """Load the results at a path: a bundle, a results folder or a part of one, a published tree.

    Returns records with the judge's verdicts; broken results are among them, and say so.
    JudgedError if there are none, or for a bundle of another format; both are PodiumError.
    """
    from podium.results import load_results  # late: the command line does not need the judge

    return load_results(path)


def __getattr__(name: str) -> object:
    """Import the types of records on use."""
    if name == "Results":
        from podium.results import Results

        return Results
    if name == "ResultRecord":
        from suite.result import Result

        return Result
    raise AttributeError(f"module 'podium' has no attribute '{name}'")
