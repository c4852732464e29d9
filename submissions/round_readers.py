"""The readers of results that a kind of round brings."""

from collections.abc import Callable
from typing import Any

from suite import registry
from suite.errors import JudgedError


def load_result_reader(round_name: str, part: str) -> Callable[..., Any]:
    """Load a part of a round's kind that reads results; JudgedError if the kind has none."""
    reader: Callable[..., Any] | None = registry.load_round_part(round_name, part)
    if reader is None:
        raise JudgedError(f"results of {round_name} cannot be read: its kind has no {part}")
    return reader
