"""Intervals of shares: of requests within bounds, among all requests."""

from math import sqrt
from statistics import NormalDist
from typing import Final

from suite.measurement.intervals import INTERVAL_CONFIDENCE

PERCENT: Final = 100.0


def compute_share_interval(good: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, 0-1, by Wilson's score (JASA 22, 1927): it stays within
    0 and 1, and holds for shares near 1. Requests are taken as independent; late ones come in
    bursts, so that another run may differ by more.
    """
    quantile = NormalDist().inv_cdf((1 + INTERVAL_CONFIDENCE) / 2)
    share, weight = good / of, quantile**2 / of
    middle = (share + weight / 2) / (1 + weight)
    half = quantile * sqrt(share * (1 - share) / of + weight / (4 * of)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def format_share_interval(good: int, of: int) -> str:
    """Format a share with its interval: `99.20 % (98.70 to 99.51 %)`."""
    low, high = compute_share_interval(good, of)
    return f"{PERCENT * good / of:.2f} % ({PERCENT * low:.2f} to {PERCENT * high:.2f} %)"
