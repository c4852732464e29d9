"""Confidence intervals of a result and of the ratio of two: Student's t on the logarithms of all
runs.

All runs, although a set's value drops the fastest and the slowest: the spread of trimmed runs is
far smaller than that of their mean, since
times to train are discrete (a run ends at an evaluation). Logarithms, since times and rates are
multiplicative and positive. Measured in
benchmarks/intervals.py on published sets: 0.95 intervals cover the mean in 0.92 to 0.98 of cases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

from suite.measurement import student

FEWEST: Final = 3
"""Minimum number of runs for an interval: two runs have one difference, and a t of 12.7."""
POWER: Final = 0.8
"""Share of cases in which a difference of the reported size would be detected. Source: Cohen,
Statistical Power Analysis, 2nd ed., 2.4.
"""


LARGEST: Final = 300.0
"""Limit of an exponent: logs may contain any number, and e^300 is practically infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval with its two ends."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean and variance of runs, on logarithms."""

    mean: float
    variance: float
    runs: int

    @property
    def error(self) -> float:
        """The squared standard error of the mean."""
        return self.variance / self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference between two sets of runs, on logarithms."""

    log_ratio: float
    """Above 0: the other set is faster."""
    error: float
    """Standard error of the logarithm; above 0."""
    dof: float
    """Degrees of freedom."""


def times(exponent: float) -> float:
    """Convert a logarithm back to a factor."""
    return math.exp(max(-LARGEST, min(LARGEST, exponent)))


def spread(runs: Sequence[float | None]) -> Spread | None:
    """Return mean and variance of runs; None if a run missed its target, or there are too few."""
    finished = [run for run in runs if run is not None and run > 0]
    if len(finished) < max(len(runs), FEWEST):
        return None
    logarithms = [math.log(run) for run in finished]
    return Spread(mean=fmean(logarithms), variance=variance(logarithms), runs=len(runs))


def around(value: float | None, runs: Sequence[float | None], confidence: float) -> Interval | None:
    """Return the interval around a set's value; None if its runs do not allow one, or are all
    equal.
    """
    told = spread(runs)
    if value is None or told is None or told.error <= 0:
        return None
    width = student.quantile(0.5 + confidence / 2, told.runs - 1) * math.sqrt(told.error)
    return Interval(low=value * times(-width), high=value * times(width))


def difference(first: Spread, other: Spread, more_is_better: bool) -> Difference | None:
    """Compare two sets without assuming equal variances; None if all runs of each set are equal.

    Source: Welch, The generalization of Student's problem, Biometrika 34 (1947); degrees of freedom
    by Satterthwaite.
    """
    error = first.error + other.error
    if error <= 0:
        return None
    gain = other.mean - first.mean
    dof = error**2 / (first.error**2 / (first.runs - 1) + other.error**2 / (other.runs - 1))
    return Difference(log_ratio=gain if more_is_better else -gain, error=math.sqrt(error), dof=dof)


def ratio_interval(found: Difference, confidence: float) -> Interval:
    """Return the interval of the ratio."""
    width = student.quantile(0.5 + confidence / 2, found.dof) * found.error
    return Interval(low=times(found.log_ratio - width), high=times(found.log_ratio + width))


def p_value(found: Difference) -> float:
    """Return the two-sided p-value for equal speed."""
    return student.two_sided(found.log_ratio / found.error, found.dof)


def shows(found: Difference, confidence: float) -> float:
    """Return the smallest difference that these runs would detect in POWER of cases, as a share:
    0.05 is 5 %.
    """
    return (
        times(
            (student.quantile(0.5 + confidence / 2, found.dof) + student.quantile(POWER, found.dof))
            * found.error
        )
        - 1
    )


def runs_for(first: Spread, other: Spread, share: float, confidence: float) -> int:
    """Return the runs per side that would detect a difference of this share in POWER of cases,
    assuming the same spread.
    """
    both, goal = first.variance + other.variance, math.log1p(share)

    def enough(runs: int) -> bool:
        dof = 2 * (runs - 1)
        return (
            runs * goal**2
            >= (student.quantile(0.5 + confidence / 2, dof) + student.quantile(POWER, dof)) ** 2
            * both
        )

    low, high = FEWEST - 1, FEWEST
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
