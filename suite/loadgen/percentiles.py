"""LoadGen's definition of percentiles, as pure functions; percentiles are 0-100.

Source: mlcommons/inference, loadgen/results.cc, PerformanceSummary::ProcessLatencies: the latencies
are sorted and the one at index `count * percentile`, truncated to an integer, is taken; nothing is
interpolated.
"""

from typing import Final

MIN_PERCENTILE: Final = 1.0
"""A percentile below this is a fraction given in the wrong unit."""
FRACTION_DECIMALS: Final = 12
"""Decimals that make 99.9 / 100 the same double as 0.999, which LoadGen multiplies with."""


def convert_to_fraction(percentile: float) -> float:
    """Convert a percentile (0-100) to LoadGen's fraction (0-1); ValueError for a value that must be
    a fraction already.
    """
    if not MIN_PERCENTILE <= percentile < 100.0:
        raise ValueError(
            f"a percentile must be between {MIN_PERCENTILE:g} and 100, not {percentile!r}"
        )
    return round(percentile / 100.0, FRACTION_DECIMALS)


def compute_percentile_index(count: int, percentile: float) -> int:
    """Return the 0-based index of a percentile among `count` sorted values."""
    if count < 1:
        raise ValueError("a percentile needs values")
    return int(count * convert_to_fraction(percentile))
