"""Metrics of results, and how a set's value is computed from its runs. Imports nothing of the
judge.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Final

TIME_TO_TRAIN: Final = "time_to_train"
MINUTES: Final = "minutes"
LATENCY: Final = "latency_"
"""Prefix of latency names."""
LESS: Final = (TIME_TO_TRAIN, LATENCY.rstrip("_"), "board_power", "power_gpu", "power_ap")
"""Prefixes of metrics of which less is better: times, latencies, and power in watts."""


def more_is_better(metric: str) -> bool:
    """Return whether more is better: true for rates, scores and sizes, false for times, latencies
    and power.
    """
    return not metric.startswith(LESS)


def olympic(runs: Sequence[float | None], from_runs: int, ends: int = 1) -> float | None:
    """Return the olympic mean: from `from_runs` runs on it drops the fastest and the slowest, or
    `ends` at each end; None if a failed run remains.
    """
    ordered = sorted(math.inf if run is None else run for run in runs)
    kept = ordered[ends:-ends] if len(ordered) >= max(from_runs, 2 * ends + 1) else ordered
    mean = fmean(kept)
    return mean if math.isfinite(mean) else None
