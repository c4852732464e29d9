"""Confidence intervals of results: Student's t on the logarithms of all runs.

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
INTERVAL_CONFIDENCE: Final = 0.95
"""Confidence of the interval of a result by itself."""
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
    value: float | None, runs: Sequence[float | None], confidence: float = INTERVAL_CONFIDENCE
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
