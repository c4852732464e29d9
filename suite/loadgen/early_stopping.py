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

from suite.loadgen.beta_distribution import beta_regularised
from suite.loadgen.percentiles import fraction

CONFIDENCE: Final = 0.99
"""results.cc, EarlyStopping: confidence; its tolerance is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What early stopping proves about the percentile of a SingleStream or MultiStream run."""

    queries_needed: int
    """Minimum number of queries: 64, 219 and 662 for p90, p97 and p99."""
    place_from_top: int | None
    """Rank from the highest latency, counted from 1, of the proven latency; None if there are too
    few queries.
    """


def passes(below: int, over: int, percentile: float) -> bool:
    """Return whether this many queries below a bound and this many over it prove the percentile."""
    return below > 0 and beta_regularised(fraction(percentile), below, 1 + over) < 1.0 - CONFIDENCE


@cache
def find_min_passing(over: int, percentile: float) -> int:
    """Return the smallest number of queries below the bound that compensates for `over` queries
    above it.
    """
    share = fraction(percentile)
    low = int(over * share / (1.0 - share))  # exactly at the percentile nothing is proven yet
    high = low + 1
    while not passes(high, over, percentile):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle, over, percentile) else (middle, high)
    return high


def queries_needed(over: int, percentile: float) -> int:
    """Return the smallest total number of queries that proves the percentile with `over` of them
    above the bound.
    """
    return over + find_min_passing(over, percentile)


@lru_cache  # several rules ask for that of the same run; bounded, since logs say how many queries
def estimate(queries: int, percentile: float) -> Estimate:
    """Return what a SingleStream or MultiStream run of this many queries proves."""
    floor = queries_needed(1, percentile)
    if queries < floor:
        return Estimate(queries_needed=floor, place_from_top=None)
    low, high = 1, queries
    while (
        high - low > 1
    ):  # the highest t that still passes: the more queries are over, the less is proven
        middle = (low + high) // 2
        low, high = (
            (middle, high) if passes(queries - middle, middle, percentile) else (low, middle)
        )
    return Estimate(queries_needed=floor, place_from_top=low)


def server_passes(queries: int, over: int, percentile: float) -> bool:
    """Return whether a Server run of this many queries, `over` of them above the bound, proves the
    percentile.
    """
    return queries >= queries_needed(over, percentile)
