"""Verdicts: what the runs of two results show, and the smallest difference they could have
detected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb, inf

from submissions.compare import intervals, mann_whitney
from suite.measurement.intervals import (
    MIN_INTERVAL_RUNS,
    Interval,
    LogSpread,
    compute_log_spread,
    convert_log_to_factor,
)


class SpeedVerdict(StrEnum):
    """Conclusion about two results."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_SEPARABLE = "not separable"
    NOT_TESTED = "not tested"


class RatioStatistic(StrEnum):
    """What a ratio is made of."""

    GEOMETRIC_MEAN = "geometric mean"
    """Of all runs of a side."""
    RESULT = "result"
    """The value of either side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisTest:
    """Test of a result's runs against those of the baseline."""

    ratio: float
    """How many times as fast: from the geometric means of all runs if they were tested on
    logarithms, else from the values.
    """
    statistic: RatioStatistic = RatioStatistic.RESULT
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
class SignificanceSettings:
    """Parameters of the tests."""

    confidence: float = 0.95
    share: float | None = None
    """The difference, as a share, for which to report the needed runs."""


def run_hypothesis_test(
    first: Sequence[float | None],
    other: Sequence[float | None],
    ratio: float,
    more_is_better: bool,
    significance: SignificanceSettings,
) -> HypothesisTest:
    """Test the runs of two results whose values have this ratio."""
    if min(len(first), len(other)) < MIN_INTERVAL_RUNS:
        return HypothesisTest(ratio=ratio, why=describe_run_counts(len(first), len(other)))
    mine, others = compute_log_spread(first), compute_log_spread(other)
    if mine is None or others is None:
        return compare_run_ranks(first, other, ratio, more_is_better, significance)
    return compare_run_logarithms(mine, others, ratio, more_is_better, significance)


def describe_run_counts(first: int, other: int) -> str:
    """Describe how few runs there are."""
    if first == other:
        if first == 1:
            return "one run each, no interval"
        return f"{first} runs each"
    return f"{first} and {other} runs"


def compare_run_logarithms(
    first: LogSpread,
    other: LogSpread,
    ratio: float,
    more_is_better: bool,
    significance: SignificanceSettings,
) -> HypothesisTest:
    """Test on logarithms."""
    found = intervals.compare_log_spreads(first, other, more_is_better)
    if found is None:
        return HypothesisTest(
            ratio=ratio,
            why="all runs of a set are equal, so their spread is unknown",
        )
    needed = None
    if significance.share:
        needed = intervals.compute_needed_runs(
            first, other, significance.share, significance.confidence
        )
    return HypothesisTest(
        ratio=convert_log_to_factor(found.log_ratio),
        statistic=RatioStatistic.GEOMETRIC_MEAN,
        faster=found.log_ratio > 0,
        interval=intervals.estimate_ratio_interval(found, significance.confidence),
        p=intervals.compute_welch_p_value(found),
        shows=intervals.compute_detectable_difference(found, significance.confidence),
        runs_for=needed,
    )


def compare_run_ranks(
    first: Sequence[float | None],
    other: Sequence[float | None],
    ratio: float,
    more_is_better: bool,
    significance: SignificanceSettings,
) -> HypothesisTest:
    """Test by ranks; a run that missed its target ranks slowest."""
    slowest = -inf if more_is_better else inf
    sides = [[slowest if run is None else run for run in runs] for runs in (first, other)]
    why = "tested by ranks, because a run missed its target or has no time"
    if 2 / comb(len(first) + len(other), len(first)) > 1 - significance.confidence:
        why += f"; {describe_run_counts(len(first), len(other))} are too few for that"
    return HypothesisTest(
        ratio=ratio,
        faster=mann_whitney.has_higher_mean_rank(*sides) is more_is_better,
        p=mann_whitney.compute_rank_p_value(*sides),
        why=why,
    )


def correct_p_values(found: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of all rows of one command; None stays None.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6 (1979).
    """
    tested = sorted((p, index) for index, p in enumerate(found) if p is not None)
    adjusted: list[float | None] = [None] * len(found)
    highest = 0.0
    for rank, (p, index) in enumerate(tested):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        adjusted[index] = highest
    return adjusted


def choose_speed_verdict(
    hypothesis_test: HypothesisTest, adjusted: float | None, confidence: float
) -> SpeedVerdict:
    """Return what the runs show, taking all rows of the command into account."""
    if adjusted is None:
        return SpeedVerdict.NOT_TESTED
    if adjusted >= 1 - confidence:
        return SpeedVerdict.NOT_SEPARABLE
    if hypothesis_test.faster:
        return SpeedVerdict.FASTER
    return SpeedVerdict.SLOWER
