"""Confidence intervals of a result and of the ratio of two: Student's t on the logarithms of all runs.

All runs, although a set's value leaves out the fastest and the slowest: what trimmed runs spread is far less than what their mean does, since
times to train are discrete (a run ends at an evaluation). On logarithms, since times and rates multiply, and none is below zero. Measured in
benchmarks/intervals.py on published sets: 0.95 intervals hold the mean in 0.92 to 0.98 of the cases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

from suite.measurement import student

FEWEST: Final = 3
"""Runs for an interval: two have one difference, and a t of 12.7."""
POWER: Final = 0.8
"""Share of the cases in which a difference of the told size would be shown. Source: Cohen, Statistical Power Analysis, 2nd ed., 2.4."""


LARGEST: Final = 300.0
"""Of an exponent: logs may hold any number, and e^300 is as good as never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From here to there."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What runs tell on logarithms."""

    mean: float
    variance: float
    runs: int

    @property
    def error(self) -> float:
        """The square of the mean's standard error."""
        return self.variance / self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two sets of runs beside each other, on logarithms."""

    log_ratio: float
    """Above 0: the other set is faster."""
    error: float
    """Standard error of the logarithm; above 0."""
    dof: float
    """Degrees of freedom."""


def times(exponent: float) -> float:
    """Turn a logarithm back into a factor."""
    return math.exp(max(-LARGEST, min(LARGEST, exponent)))


def spread(runs: Sequence[float | None]) -> Spread | None:
    """Return what the runs tell; None if a run missed its target, or where there are too few."""
    finished = [run for run in runs if run is not None and run > 0]
    if len(finished) < max(len(runs), FEWEST):
        return None
    logarithms = [math.log(run) for run in finished]
    return Spread(mean=fmean(logarithms), variance=variance(logarithms), runs=len(runs))


def around(value: float | None, runs: Sequence[float | None], confidence: float) -> Interval | None:
    """Return the interval around a set's value; None if its runs tell none, or where none differs from another."""
    told = spread(runs)
    if value is None or told is None or told.error <= 0:
        return None
    width = student.quantile(0.5 + confidence / 2, told.runs - 1) * math.sqrt(told.error)
    return Interval(low=value * times(-width), high=value * times(width))


def difference(first: Spread, other: Spread, more_is_better: bool) -> Difference | None:
    """Hold two sets against each other without taking their spreads for equal; None if no run differs from another of its set.

    Source: Welch, The generalization of Student's problem, Biometrika 34 (1947); degrees of freedom by Satterthwaite.
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
    """Return the two-sided p that both are equally fast."""
    return student.two_sided(found.log_ratio / found.error, found.dof)


def shows(found: Difference, confidence: float) -> float:
    """Return the smallest difference that these runs would show in POWER of the cases, as a share: 0.05 is 5 %."""
    return times((student.quantile(0.5 + confidence / 2, found.dof) + student.quantile(POWER, found.dof)) * found.error) - 1


def runs_for(first: Spread, other: Spread, share: float, confidence: float) -> int:
    """Return the runs of each side that would show a difference of this share in POWER of the cases, should they spread as these do."""
    both, goal = first.variance + other.variance, math.log1p(share)

    def enough(runs: int) -> bool:
        dof = 2 * (runs - 1)
        return runs * goal**2 >= (student.quantile(0.5 + confidence / 2, dof) + student.quantile(POWER, dof)) ** 2 * both

    low, high = FEWEST - 1, FEWEST
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
