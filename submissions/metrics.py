"""Metrics of results, and how a set's value is computed from its runs. Imports nothing from the
judge.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Final

TIME_TO_TRAIN: Final = "time_to_train"
MINUTES_UNIT: Final = "minutes"
LATENCY_PREFIX: Final = "latency_"
"""Prefix of latency names."""
LESS_IS_BETTER_PREFIXES: Final = (
    TIME_TO_TRAIN,
    LATENCY_PREFIX.rstrip("_"),
    "board_power",
    "power_gpu",
    "power_ap",
)
"""Prefixes of metrics where lower is better: times, latencies, and power in watts."""


def is_higher_better(metric: str) -> bool:
    """Return whether higher is better: true for rates, scores and sizes, false for times, latencies
    and power.
    """
    return not metric.startswith(LESS_IS_BETTER_PREFIXES)


def compute_olympic_mean(
    runs: Sequence[float | None], from_runs: int, ends: int = 1
) -> float | None:
    """Return the olympic mean; None if a failed run remains. With at least `from_runs` runs it
    drops the fastest and the slowest, or `ends` runs at each end.
    """
    ordered = sorted(math.inf if run is None else run for run in runs)
    retained = ordered[ends:-ends] if len(ordered) >= max(from_runs, 2 * ends + 1) else ordered
    mean = fmean(retained)
    return mean if math.isfinite(mean) else None
