"""Confidence intervals for a result and for the ratio of two: Student's t on the logarithms of all
runs.

All runs are used, although a set's value drops the fastest and the slowest: the spread of trimmed
runs is far smaller than that of their mean, since times to train are discrete (a run ends at an
evaluation). Logarithms are used, since times and rates are multiplicative and positive. Measured in
benchmarks/intervals.py on published sets: 0.95 intervals cover the mean in 0.92 to 0.98 of cases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

from suite.measurement import student

MIN_INTERVAL_RUNS: Final = 3
"""Minimum number of runs for an interval: with two runs there is one degree of freedom, and t is
12.7.
"""
DETECTION_POWER: Final = 0.8
"""Share of cases in which a difference of the reported size would be detected. Source: Cohen,
Statistical Power Analysis, 2nd ed., 2.4.
"""


MAX_EXPONENT: Final = 300.0
"""Largest exponent: logs may contain any number, and e^300 is practically infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval with its two ends."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpread:
    """Mean and variance of runs, on logarithms."""

    mean: float
    variance: float
    runs: int

    @property
    def squared_standard_error(self) -> float:
        """The squared standard error of the mean."""
        return self.variance / self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDifference:
    """Difference between two sets of runs, on logarithms."""

    log_ratio: float
    """Above 0: the other set is faster."""
    standard_error: float
    """Standard error of the logarithm; above 0."""
    dof: float
    """Degrees of freedom."""


def convert_log_to_factor(exponent: float) -> float:
    """Convert a logarithm back to a factor."""
    return math.exp(max(-MAX_EXPONENT, min(MAX_EXPONENT, exponent)))


def compute_log_spread(runs: Sequence[float | None]) -> LogSpread | None:
    """Return mean and variance of runs; None if a run missed its target, or there are too few."""
    finished = [run for run in runs if run is not None and run > 0]
    if len(finished) < max(len(runs), MIN_INTERVAL_RUNS):
        return None
    logarithms = [math.log(run) for run in finished]
    return LogSpread(mean=fmean(logarithms), variance=variance(logarithms), runs=len(runs))


def estimate_value_interval(
    value: float | None, runs: Sequence[float | None], confidence: float
) -> Interval | None:
    """Return the interval around a set's value; None if its runs do not allow one, or are all
    equal.
    """
    log_spread = compute_log_spread(runs)
    if value is None or log_spread is None or log_spread.squared_standard_error <= 0:
        return None
    width = student.compute_t_quantile(0.5 + confidence / 2, log_spread.runs - 1) * math.sqrt(
        log_spread.squared_standard_error
    )
    return Interval(
        low=value * convert_log_to_factor(-width), high=value * convert_log_to_factor(width)
    )


def compare_log_spreads(
    first: LogSpread, other: LogSpread, more_is_better: bool
) -> LogDifference | None:
    """Compare two sets without assuming equal variances; None if all runs of each set are equal.

    Source: Welch, The generalization of Student's problem, Biometrika 34 (1947); degrees of freedom
    by Satterthwaite.
    """
    error = first.squared_standard_error + other.squared_standard_error
    if error <= 0:
        return None
    gain = other.mean - first.mean
    dof = error**2 / (
        first.squared_standard_error**2 / (first.runs - 1)
        + other.squared_standard_error**2 / (other.runs - 1)
    )
    return LogDifference(
        log_ratio=gain if more_is_better else -gain, standard_error=math.sqrt(error), dof=dof
    )


def estimate_ratio_interval(found: LogDifference, confidence: float) -> Interval:
    """Return the interval of the ratio."""
    width = student.compute_t_quantile(0.5 + confidence / 2, found.dof) * found.standard_error
    return Interval(
        low=convert_log_to_factor(found.log_ratio - width),
        high=convert_log_to_factor(found.log_ratio + width),
    )


def compute_welch_p_value(found: LogDifference) -> float:
    """Return the two-sided p-value for equal speed."""
    return student.compute_t_two_sided(found.log_ratio / found.standard_error, found.dof)


def compute_detectable_difference(found: LogDifference, confidence: float) -> float:
    """Return the smallest difference that these runs would detect in POWER of cases, as a share:
    0.05 is 5 %.
    """
    return (
        convert_log_to_factor(
            (
                student.compute_t_quantile(0.5 + confidence / 2, found.dof)
                + student.compute_t_quantile(DETECTION_POWER, found.dof)
            )
            * found.standard_error
        )
        - 1
    )


def compute_needed_runs(first: LogSpread, other: LogSpread, share: float, confidence: float) -> int:
    """Return the runs per side that would detect a difference of this share in POWER of cases,
    assuming the same spread.
    """
    both, goal = first.variance + other.variance, math.log1p(share)

    def can_detect_share(runs: int) -> bool:
        dof = 2 * (runs - 1)
        return (
            runs * goal**2
            >= (
                student.compute_t_quantile(0.5 + confidence / 2, dof)
                + student.compute_t_quantile(DETECTION_POWER, dof)
            )
            ** 2
            * both
        )

    low, high = MIN_INTERVAL_RUNS - 1, MIN_INTERVAL_RUNS
    while not can_detect_share(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if can_detect_share(middle) else (middle, high)
    return high
