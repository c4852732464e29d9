"""The ratio of two results: its interval, its p-value and how many runs would show a difference, by
Student's t on the logarithms of all runs.
"""

import math
from dataclasses import dataclass
from typing import Final

from suite.measurement import student
from suite.measurement.intervals import (
    MIN_INTERVAL_RUNS,
    Interval,
    LogSpread,
    convert_log_to_factor,
)

DETECTION_POWER: Final = 0.8
"""Share of cases in which a difference of the reported size would be detected. Source: Cohen,
Statistical Power Analysis, 2nd ed., 2.4.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDifference:
    """Difference between two sets of runs, on logarithms."""

    log_ratio: float
    """Above 0: the other set is faster."""
    standard_error: float
    """Standard error of the logarithm; above 0."""
    dof: float
    """Degrees of freedom."""


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
