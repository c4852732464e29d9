"""Reference convergence points (RCP): how long the reference trains to the target at a batch size,
and the least that a set of runs may need.

A point's mean drops as many runs at each end as a set's mean does. The smallest mean allowed for a
set is that of a one-sided t test with significance 0.05, assuming the point's standard deviation s
for both samples:

    least = mean - t(0.95, n1 + n2 - 2) * s * sqrt(1/n1 + 1/n2)

with n1 runs in the point's mean and n2 = runs of a set - 2. Between two points values are
interpolated, and n1 = 2 x runs of a set. Points that are slower than an interpolation of their
neighbours are pruned. Source: mlcommons/logging, mlperf_logging/rcp_checker/rcp_checker.py, which
searches for the same value step by step; training_rules.adoc, Reference Convergence Points.
"""

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from statistics import fmean, pstdev
from typing import Final

from compliance.kinds.training.round import PublishedBenchmark, PublishedTraining
from suite.measurement.student import compute_t_quantile

CONVERGENCE_FOLDER: Final = files("compliance.kinds.training.rounds").joinpath("convergence")
LEAST_MEAN_SIGNIFICANCE: Final = 0.05
"""Source: rcp_checker.py, alpha."""
TOLERATED_EARLIER_SAMPLES: Final = {"llama31_405b": 46_080}
"""How far below the least mean a set may be, from v5.0 on. Source: rcp_checker.py,
_eval_submission_record: one evaluation interval.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvergencePoint:
    """One reference convergence point, measured or interpolated."""

    name: str
    batch: int
    mean: float
    """In the benchmark's unit of progress."""
    deviation: float
    runs: int
    """Runs in the mean."""
    least: float
    """The smallest mean allowed for a set."""
    precision: str = ""
    """Number format of the reference's runs, if the point states it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvergenceReference:
    """Reference convergence points of one benchmark, which its sets are compared with."""

    points: tuple[ConvergencePoint, ...]
    """Points after pruning, sorted by batch size."""
    runs: int
    """Runs per set."""
    ends: int
    """Runs that a mean drops at each end."""
    earlier: float
    """How far below the least mean a set may be."""

    def find_point(self, batch: float) -> ConvergencePoint | None:
        """Return the point for a batch size, interpolated if necessary; None outside all of
        them.
        """
        exact = next((point for point in self.points if point.batch == batch), None)
        below = [point for point in self.points if point.batch < batch]
        beyond = [point for point in self.points if point.batch > batch]
        return exact or (
            interpolate_points(below[-1], beyond[0], batch, self.runs) if below and beyond else None
        )


def interpolate_points(
    low: ConvergencePoint, high: ConvergencePoint, batch: float, runs: int
) -> ConvergencePoint:
    """Interpolate between two points."""
    share = (batch - low.batch) / (high.batch - low.batch)
    mean, deviation = (
        low.mean + share * (high.mean - low.mean),
        low.deviation + share * (high.deviation - low.deviation),
    )
    name = f"between {low.name} and {high.name}"
    return ConvergencePoint(
        name=name,
        batch=int(batch),
        mean=mean,
        deviation=deviation,
        runs=2 * runs,
        least=compute_least_mean(mean, deviation, 2 * runs, runs),
    )


def compute_least_mean(mean: float, deviation: float, reference_runs: int, runs: int) -> float:
    """Return the smallest mean allowed for a set of runs."""
    own = runs - 2
    if deviation == 0 or reference_runs + own <= 2 or own < 1:
        return mean
    return max(
        0.0,
        mean
        - compute_t_quantile(1 - LEAST_MEAN_SIGNIFICANCE, reference_runs + own - 2)
        * deviation
        * math.sqrt(1 / reference_runs + 1 / own),
    )


def drop_extremes(values: Iterable[float], ends: int) -> Sequence[float]:
    """Drop the smallest and the largest values."""
    return sorted(values)[ends : -ends or None]


@cache
def read_convergence_reference(
    round_name: str, benchmark: str, runs: int, ends: int, without_ends: bool
) -> ConvergenceReference | None:
    """Read and prune the reference points of a benchmark in a round; None if it has none."""
    try:
        tables = tomllib.loads(CONVERGENCE_FOLDER.joinpath(f"{benchmark}.toml").read_text("utf-8"))[
            "point"
        ]
    except FileNotFoundError:
        return None
    found = sorted(
        (
            build_convergence_point(table, runs, ends, without_ends)
            for table in tables
            if round_name in table["rounds"]
        ),
        key=lambda point: point.batch,
    )
    earlier = TOLERATED_EARLIER_SAMPLES.get(benchmark, 0)
    if not found:
        return None
    return ConvergenceReference(
        points=prune_slow_points(found, runs), runs=runs, ends=ends, earlier=earlier
    )


def find_convergence_reference(
    round: PublishedTraining, benchmark: str, row: PublishedBenchmark
) -> ConvergenceReference | None:
    """Return the reference points for a benchmark's sets in a round."""
    own = row.drop_each_end
    if own is None:
        ends = round.rules.drop_each_end
    else:
        ends = own
    return read_convergence_reference(
        round.name, benchmark, row.runs, ends, round.rules.deviation_without_ends
    )


def build_convergence_point(
    table: dict[str, object], runs: int, ends: int, without_ends: bool
) -> ConvergencePoint:
    """Compute a point from the reference's runs."""
    converged = [float(str(value)) for value in iterate_list_entries(table["converged"])]
    counted = drop_extremes(converged, ends)
    mean, deviation = fmean(counted), pstdev(counted if without_ends else converged)
    least = compute_least_mean(mean, deviation, len(counted), runs)
    precision = str(table.get("precision", ""))
    return ConvergencePoint(
        name=str(table["name"]),
        batch=int(str(table["batch"])),
        mean=mean,
        deviation=deviation,
        runs=len(counted),
        least=least,
        precision=precision,
    )


def iterate_list_entries(value: object) -> Iterable[object]:
    if isinstance(value, list):
        return value
    return []


def prune_slow_points(
    points: Sequence[ConvergencePoint], runs: int
) -> tuple[ConvergencePoint, ...]:
    """Drop points that are slower than a smaller batch's point, or slower than an interpolation of
    their neighbours.

    Source: rcp_checker.py, _prune_rcps: nothing below the batch of the fastest point; then one
    pass, a step back after each removal.
    """
    fastest = min(points, key=lambda point: point.mean)
    remaining = [point for point in points if point.batch >= fastest.batch]
    index = 1
    while index < len(remaining) - 1:
        if (
            remaining[index].mean
            > interpolate_points(
                remaining[index - 1], remaining[index + 1], remaining[index].batch, runs
            ).mean
        ):
            del remaining[index]
            index -= 1
        index += 1
    return tuple(replace(point) for point in remaining)
