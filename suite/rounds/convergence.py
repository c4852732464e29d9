"""Reference convergence points (RCP): how far the reference trains at a batch size until it reaches the target, and what a set of runs may need at least.

A point's mean leaves out as many runs at each end as a set's does. The smallest mean that a set may have is that of a one-sided t test
with significance 0.05, both samples being taken to have the point's deviation s:

    least = mean - t(0.95, n1 + n2 - 2) * s * sqrt(1/n1 + 1/n2)

with n1 runs in the point's mean and n2 = runs of a set - 2; between two points, which are interpolated, n1 = 2 x runs of a set. Points
that are slower than what the points beside them say are pruned. Source: mlcommons/logging, mlperf_logging/rcp_checker/rcp_checker.py,
which searches for the same value step by step; training_rules.adoc, Reference Convergence Points.
"""

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from statistics import fmean, pstdev
from typing import Final

from suite.measurement.student import quantile
from suite.rounds.published_training import PublishedBenchmark, PublishedTraining

FOLDER: Final = files("suite.rounds").joinpath("convergence")
SIGNIFICANCE: Final = 0.05
"""Source: rcp_checker.py, alpha."""
EARLIER_SAMPLES: Final = {"llama31_405b": 46_080}
"""By how much less than the least mean a set may need, from v5.0 on. Source: rcp_checker.py, _eval_submission_record: one evaluation interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One reference convergence point, or what two of them say between them."""

    name: str
    batch: int
    mean: float
    """In the unit that the benchmark counts."""
    deviation: float
    runs: int
    """In the mean."""
    least: float
    """The smallest mean that a set may have."""
    precision: str = ""
    """Of the reference's runs, where the point says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What sets of one benchmark are held against."""

    points: tuple[Point, ...]
    """After pruning, by batch size."""
    runs: int
    """Of a set."""
    ends: int
    """Runs that a mean leaves out at each end."""
    earlier: float
    """By how much less than the least mean a set may need."""

    def at(self, batch: float) -> Point | None:
        """Return the point of a batch size, or what lies between two; None outside all of them."""
        exact = next((point for point in self.points if point.batch == batch), None)
        below = [point for point in self.points if point.batch < batch]
        beyond = [point for point in self.points if point.batch > batch]
        return exact or (between(below[-1], beyond[0], batch, self.runs) if below and beyond else None)


def between(low: Point, high: Point, batch: float, runs: int) -> Point:
    """Interpolate between two points."""
    share = (batch - low.batch) / (high.batch - low.batch)
    mean, deviation = low.mean + share * (high.mean - low.mean), low.deviation + share * (high.deviation - low.deviation)
    name = f"between {low.name} and {high.name}"
    return Point(name=name, batch=int(batch), mean=mean, deviation=deviation, runs=2 * runs, least=least_mean(mean, deviation, 2 * runs, runs))


def least_mean(mean: float, deviation: float, reference_runs: int, runs: int) -> float:
    """Return the smallest mean that a set of runs may have."""
    own = runs - 2
    if deviation == 0 or reference_runs + own <= 2 or own < 1:
        return mean
    return max(0.0, mean - quantile(1 - SIGNIFICANCE, reference_runs + own - 2) * deviation * math.sqrt(1 / reference_runs + 1 / own))


def trimmed(values: Iterable[float], ends: int) -> Sequence[float]:
    """Leave out the smallest and the largest."""
    return sorted(values)[ends : -ends or None]


@cache
def reference(round_name: str, benchmark: str, runs: int, ends: int, without_ends: bool) -> Reference | None:
    """Read the points of a benchmark in a round, and prune them; None if it has none."""
    try:
        tables = tomllib.loads(FOLDER.joinpath(f"{benchmark}.toml").read_text("utf-8"))["point"]
    except FileNotFoundError:
        return None
    found = sorted((made(table, runs, ends, without_ends) for table in tables if round_name in table["rounds"]), key=lambda point: point.batch)
    earlier = EARLIER_SAMPLES.get(benchmark, 0)
    return Reference(points=pruned(found, runs), runs=runs, ends=ends, earlier=earlier) if found else None


def reference_of(round: PublishedTraining, benchmark: str, row: PublishedBenchmark) -> Reference | None:
    """Return what a benchmark's sets are held against in a round."""
    own = row.drop_each_end
    ends = round.rules.drop_each_end if own is None else own
    return reference(round.name, benchmark, row.runs, ends, round.rules.deviation_without_ends)


def made(table: dict[str, object], runs: int, ends: int, without_ends: bool) -> Point:
    """Make a point of the reference's runs."""
    converged = [float(str(value)) for value in iterable(table["converged"])]
    kept = trimmed(converged, ends)
    mean, deviation = fmean(kept), pstdev(kept if without_ends else converged)
    least = least_mean(mean, deviation, len(kept), runs)
    precision = str(table.get("precision", ""))
    return Point(name=str(table["name"]), batch=int(str(table["batch"])), mean=mean, deviation=deviation, runs=len(kept), least=least, precision=precision)


def iterable(value: object) -> Iterable[object]:
    """Return the entries of a list."""
    return value if isinstance(value, list) else []


def pruned(points: Sequence[Point], runs: int) -> tuple[Point, ...]:
    """Leave out what is slower than a smaller batch's point, and what is slower than the points beside it say.

    Source: rcp_checker.py, _prune_rcps: nothing below the batch of the fastest point; then one pass, a step back after each removal.
    """
    fastest = min(points, key=lambda point: point.mean)
    kept = [point for point in points if point.batch >= fastest.batch]
    index = 1
    while index < len(kept) - 1:
        if kept[index].mean > between(kept[index - 1], kept[index + 1], kept[index].batch, runs).mean:
            del kept[index]
            index -= 1
        index += 1
    return tuple(replace(point) for point in kept)
