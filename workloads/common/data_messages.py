"""What messages about data sets say: lists of names, and what to do where samples are broken."""

from collections.abc import Iterable
from typing import Final

MAX_LISTED_NAMES: Final = 5  # names listed in a message; the rest are counted
TRAINING_SPLIT: Final = "train"
MIN_USABLE_PERCENT: Final = 99
"""House rule: with fewer of the samples, a training is one on another data set."""


def format_leading_names(names: Iterable[str]) -> str:
    """List the first few names, and count the rest."""
    listed_names = list(names)
    more = ""
    if len(listed_names) > MAX_LISTED_NAMES:
        more = f" and {len(listed_names) - MAX_LISTED_NAMES} more"
    return ", ".join(listed_names[:MAX_LISTED_NAMES]) + more


def format_left_out_names(names: Iterable[str]) -> str:
    """Name what a survey left out, each name once; "" if it left out nothing."""
    distinct_names = sorted(set(names))
    return f"left out: {format_leading_names(distinct_names)}" if distinct_names else ""


def advise_about_broken_samples(split: str, usable: int, count: int, skipping: str) -> str:
    """Return what to do about a split's broken samples. `skipping`: what data.skip_broken does.

    Leaving samples out is no advice where it would change what is measured. A run is scored on the
    whole evaluation split; only of training samples a few may be missing.
    """
    if split != TRAINING_SPLIT:
        return f"restore them: a run is scored on all of {split}"
    if usable * 100 < count * MIN_USABLE_PERCENT:
        return "restore them: they are too many to leave out"
    return f"--set data.skip_broken=true {skipping}"
