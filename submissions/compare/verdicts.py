"""Verdicts: what the runs of two results show, and which difference they could have detected."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb, inf

from submissions.compare import intervals, mann_whitney
from submissions.compare.intervals import FEWEST, Interval, Spread


class Verdict(StrEnum):
    """Conclusion about two results."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_SEPARABLE = "not separable"
    NOT_TESTED = "not tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Test of a result's runs against those of the first."""

    ratio: float
    """How many times as fast: from the geometric means of all runs if they were tested on
    logarithms, else from the values.
    """
    faster: bool = False
    """The other result's runs are faster; meaningless if nothing was tested."""
    interval: Interval | None = None
    """Interval of the ratio, at the requested confidence."""
    p: float | None = None
    """p-value for equal speed; None if nothing was tested."""
    shows: float | None = None
    """The smallest difference that the runs would detect in 80 % of cases, as a share; None if that
    is unknown.
    """
    runs_for: int | None = None
    """Runs per side needed for the requested difference."""
    why: str = ""
    """Why nothing was tested, or which test was used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Parameters of the tests."""

    confidence: float = 0.95
    share: float | None = None
    """The difference, as a share, for which to report the needed runs."""


def hold(
    first: Sequence[float | None],
    other: Sequence[float | None],
    ratio: float,
    more_is_better: bool,
    asked: Asked,
) -> Trial:
    """Test the runs of two results whose values have this ratio."""
    if min(len(first), len(other)) < FEWEST:
        return Trial(ratio=ratio, why=too_few(len(first), len(other)))
    mine, others = intervals.spread(first), intervals.spread(other)
    if mine is None or others is None:
        return by_rank(first, other, ratio, more_is_better, asked)
    return by_size(mine, others, ratio, more_is_better, asked)


def too_few(first: int, other: int) -> str:
    """Describe how few runs there are."""
    if first == other:
        return "one run each" if first == 1 else f"{first} runs each"
    return f"{first} and {other} runs"


def by_size(
    first: Spread, other: Spread, ratio: float, more_is_better: bool, asked: Asked
) -> Trial:
    """Test on logarithms."""
    found = intervals.difference(first, other, more_is_better)
    if found is None:
        return Trial(
            ratio=ratio,
            why="no run differs from another of its set, so nothing tells how far they spread",
        )
    return Trial(
        ratio=intervals.times(found.log_ratio),
        faster=found.log_ratio > 0,
        interval=intervals.ratio_interval(found, asked.confidence),
        p=intervals.p_value(found),
        shows=intervals.shows(found, asked.confidence),
        runs_for=(
            intervals.runs_for(first, other, asked.share, asked.confidence) if asked.share else None
        ),
    )


def by_rank(
    first: Sequence[float | None],
    other: Sequence[float | None],
    ratio: float,
    more_is_better: bool,
    asked: Asked,
) -> Trial:
    """Test by ranks; a run that missed its target ranks slowest."""
    slowest = -inf if more_is_better else inf
    sides = [[slowest if run is None else run for run in runs] for runs in (first, other)]
    why = "tested by ranks, since a run missed or has no time"
    if 2 / comb(len(first) + len(other), len(first)) > 1 - asked.confidence:
        why += f"; {too_few(len(first), len(other))} are too few for that"
    return Trial(
        ratio=ratio,
        faster=mann_whitney.higher(*sides) is more_is_better,
        p=mann_whitney.p_value(*sides),
        why=why,
    )


def holm(found: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of all rows of one command; None stays None.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6 (1979).
    """
    tested = sorted((p, place) for place, p in enumerate(found) if p is not None)
    adjusted: list[float | None] = [None] * len(found)
    highest = 0.0
    for rank, (p, place) in enumerate(tested):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        adjusted[place] = highest
    return adjusted


def verdict(trial: Trial, adjusted: float | None, confidence: float) -> Verdict:
    """Return what the runs show, taking all rows of the command into account."""
    if adjusted is None:
        return Verdict.NOT_TESTED
    if adjusted >= 1 - confidence:
        return Verdict.NOT_SEPARABLE
    return Verdict.FASTER if trial.faster else Verdict.SLOWER
