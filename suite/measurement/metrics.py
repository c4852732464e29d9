"""Metrics of results, and how a set's value is computed from its runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
DERIVABLE_RATE_UNITS: Final = ("samples/s", "queries/s", "tokens/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedFigure:
    """A figure derived from a result; it is not the result's own metric."""

    value: float
    unit: str


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
    if len(ordered) >= max(from_runs, 2 * ends + 1):
        retained = ordered[ends:-ends]
    else:
        retained = ordered
    mean = fmean(retained)
    return mean if math.isfinite(mean) else None


def is_derivable_figure(metric: str, unit: str) -> bool:
    """Return whether figures per accelerator or per unit of money follow from a result: from rates
    and times to train, never from latencies.
    """
    return unit in DERIVABLE_RATE_UNITS or metric == TIME_TO_TRAIN


def compute_accelerator_figure(
    value: float, unit: str, accelerators: int | None
) -> DerivedFigure | None:
    """Divide a rate by the accelerators, or multiply minutes by them; None if there are none, or
    their number is unknown.
    """
    if not accelerators:
        return None
    if unit == MINUTES_UNIT:
        return DerivedFigure(value=value * accelerators, unit="accelerator-minutes")
    return DerivedFigure(value=value / accelerators, unit=f"{unit} per accelerator")
