"""LoadGen's early stopping: how many queries prove a percentile. Pure functions; percentiles are
0-100.

Source: mlcommons/inference, loadgen/early_stopping.cc and results.cc,
PerformanceSummary::EarlyStopping. With t queries
over the bound, h below it are enough when the regularised incomplete beta function BetaReg(p, h, 1
+ t) is below 1 - 0.99.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from suite.loadgen.beta_distribution import compute_regularised_beta
from suite.loadgen.percentiles import convert_to_fraction

EARLY_STOPPING_CONFIDENCE: Final = 0.99
"""results.cc, EarlyStopping: confidence; its tolerance is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStoppingEstimate:
    """What early stopping proves about the percentile of a SingleStream or MultiStream run."""

    queries_needed: int
    """Minimum number of queries: 64, 219 and 662 for p90, p97 and p99."""
    rank_from_top: int | None
    """Rank from the highest latency, counted from 1, of the proven latency; None if there are too
    few queries.
    """


def is_percentile_proven(below: int, over: int, percentile: float) -> bool:
    """Return whether this many queries below a bound and this many over it prove the percentile."""
    return (
        below > 0
        and compute_regularised_beta(convert_to_fraction(percentile), below, 1 + over)
        < 1.0 - EARLY_STOPPING_CONFIDENCE
    )


@cache
def find_min_passing_queries(over: int, percentile: float) -> int:
    """Return the smallest number of queries below the bound that compensates for `over` queries
    above it.
    """
    share = convert_to_fraction(percentile)
    low = int(over * share / (1.0 - share))  # exactly at the percentile nothing is proven yet
    high = low + 1
    while not is_percentile_proven(high, over, percentile):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if is_percentile_proven(middle, over, percentile):
            low, high = low, middle
        else:
            low, high = middle, high
    return high


def compute_queries_needed(over: int, percentile: float) -> int:
    """Return the smallest total number of queries that proves the percentile with `over` of them
    above the bound.
    """
    return over + find_min_passing_queries(over, percentile)


@lru_cache  # several rules ask for that of the same run; bounded, since logs say how many queries
def estimate_early_stopping(queries: int, percentile: float) -> EarlyStoppingEstimate:
    """Return what a SingleStream or MultiStream run of this many queries proves."""
    floor = compute_queries_needed(1, percentile)
    if queries < floor:
        return EarlyStoppingEstimate(queries_needed=floor, rank_from_top=None)
    low, high = 1, queries
    # the highest t that still passes: the more queries are over, the less is proven
    while high - low > 1:
        middle = (low + high) // 2
        if is_percentile_proven(queries - middle, middle, percentile):
            low, high = middle, high
        else:
            low, high = low, middle
    return EarlyStoppingEstimate(queries_needed=floor, rank_from_top=low)


def is_server_run_proven(queries: int, over: int, percentile: float) -> bool:
    """Return whether a Server run of this many queries, `over` of them above the bound, proves the
    percentile.
    """
    return queries >= compute_queries_needed(over, percentile)
