"""Lists of names in messages."""

from collections.abc import Iterable
from typing import Final

MAX_LISTED_NAMES: Final = 5  # names listed in a message; the rest are counted


def format_leading_names(names: Iterable[str]) -> str:
    """List the first few names, and count the rest."""
    listed_names = list(names)
    more = (
        f" and {len(listed_names) - MAX_LISTED_NAMES} more"
        if len(listed_names) > MAX_LISTED_NAMES
        else ""
    )
    return ", ".join(listed_names[:MAX_LISTED_NAMES]) + more


def format_left_out_names(names: Iterable[str]) -> str:
    """Name what a survey left out, each name once; "" if it left out nothing."""
    distinct_names = sorted(set(names))
    return f"left out: {format_leading_names(distinct_names)}" if distinct_names else ""
