"""The documents of a study: `point.json` next to each point's LoadGen files, and `study.json` with the table.

The harness writes them and the judge recomputes them, both with the formulas in this module.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Final

from suite.measurement.student import quantile
from suite.power import Grade
from suite.records import EnergyRecord

STUDIES: Final = "studies"
STUDY: Final = "study.json"
POINT: Final = "point.json"
IDLE: Final = "idle.jsonl"
"""Telemetry from before the first point, if power can be read."""
ACCURACY: Final = "accuracy"
TRUTH: Final = "truth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Identity of a measured point: equal identities need not be measured twice."""

    subject: str
    """Name of a workload or of a bare network."""
    bare: bool
    weights: str
    """SHA-256 of the checkpoint or of the file of weights; `random, seed N` for a bare network without weights."""
    profile: str | None
    """Profile of a workload."""
    engine: str
    precision: str
    framework: str
    device: str
    threads: int
    batch: int
    seconds: float
    settings: dict[str, Any]
    version: str
    """Version of podium."""


NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
P90_QUERIES: Final = 64
P99_QUERIES: Final = 662
"""Minimum number of queries from which LoadGen estimates the percentile with 99 % confidence. Source: loadgen/early_stopping.cc, MinPassingQueriesFinder."""
SHARES: Final = {"p50_ns": (0, "50.00"), "p90_ns": (P90_QUERIES, "90.00"), "p99_ns": (P99_QUERIES, "99.00")}
"""Field of a row -> minimum number of queries, and the percentile in LoadGen's key: the slowest of 71 is not a 99th percentile."""
QUERIES: Final = "result_query_count"
MEAN: Final = "result_mean_query_latency_ns"
PARTS: Final = 10
CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point of the table; None was not measured, or not often enough."""

    engine: str
    precision: str
    batch: int
    folder: str
    """Folder of the LoadGen run, relative to the study's; empty if there is none."""
    queries: int = 0
    samples_per_second: float | None = None
    low: float | None = None
    high: float | None = None
    """95 % interval of the rate, from ten slices of the run's time."""
    mean_latency_ns: float | None = None
    p50_ns: float | None = None
    p90_ns: float | None = None
    p99_ns: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    difference: dict[str, float] = field(default_factory=dict)
    """Scores minus the checkpoint's reference accuracy."""
    energy: tuple[EnergyRecord, ...] = ()
    """One record per power channel that was read beside the point."""
    no_energy: tuple[str, ...] = ()
    """Why a channel gave no energy."""
    why: str = ""
    """Why there is no figure: not enough memory, or a number format that this engine does not support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The first point, measured again at the end."""

    engine: str
    precision: str
    batch: int
    folder: str
    samples_per_second: float
    change: float
    """Second rate / first rate - 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The largest measured batch whose tail latency is within the budget."""

    engine: str
    precision: str
    batch: int
    samples_per_second: float
    latency_ns: float
    by: str
    """p99; mean if a point has too few queries for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """`study.json`."""

    kind: str
    subject: str
    bare: bool
    weights: str
    profile: str | None
    system: str
    device: str
    threads: int
    seconds: float
    seed: int
    """Seed of the order of the points."""
    within_ms: float | None
    rows: tuple[Row, ...]
    drift: tuple[Drift, ...]
    best: tuple[Best, ...]
    idle: tuple[EnergyRecord, ...] = ()
    """What the machine drew before the first point; never subtracted."""
    version: str


def most_direct(energy: Sequence[EnergyRecord]) -> EnergyRecord | None:
    """Return the energy that a table shows: of the best grade; of several parts their sum, which is the last."""
    order = list(Grade)
    return min(reversed(energy), key=lambda each: order.index(Grade(each.grade)) if each.grade in order else len(order), default=None)


def best_within(rows: Sequence[Row], within_ms: float | None) -> tuple[Best, ...]:
    """Return the largest batch within the budget for each engine and number format; only measured points count."""
    if within_ms is None:
        return ()
    found: dict[tuple[str, str], Best] = {}
    for row in sorted(rows, key=lambda row: row.batch):
        latency, by = (row.p99_ns, "p99") if row.p99_ns is not None else (row.mean_latency_ns, "mean")
        if latency is not None and row.samples_per_second is not None and latency <= within_ms * NS_PER_MS:
            found[row.engine, row.precision] = Best(
                engine=row.engine, precision=row.precision, batch=row.batch, samples_per_second=row.samples_per_second, latency_ns=latency, by=by
            )
    return tuple(found.values())


def share_key(share: str) -> str:
    """Return LoadGen's key of a percentile of queries' latencies."""
    return f"result_{share}_percentile_per_query_latency_ns"


def cells(value: Callable[[str], float], batch: int) -> dict[str, Any]:
    """Return the cells computed from LoadGen's detail log: the rate of a closed loop is a query's samples over the mean latency."""
    queries, mean_ns = int(value(QUERIES)), value(MEAN)
    shares = {name: value(share_key(share)) for name, (least, share) in SHARES.items() if queries >= least}
    return {"queries": queries, "samples_per_second": batch * NS_PER_S / mean_ns, "mean_latency_ns": mean_ns, **shares}


def interval(means_ns: Sequence[float], batch: int) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the rate by batch means: the mean latencies of ten parts of the run, which are less correlated than queries.

    Source: A. M. Law, Simulation Modeling and Analysis, section 9.5.3. None if there are fewer parts, or an end has no bound.
    """
    if len(means_ns) != PARTS:
        return None, None
    mean_ns, half_ns = fmean(means_ns), quantile((1 + CONFIDENCE) / 2, PARTS - 1) * stdev(means_ns) / math.sqrt(PARTS)
    return batch * NS_PER_S / (mean_ns + half_ns), batch * NS_PER_S / (mean_ns - half_ns) if mean_ns > half_ns else None


def parts_of(latencies: Any) -> list[float]:
    """Cut the latencies of queries (an array, ns) into ten consecutive parts, and return their means; none if there are fewer than ten."""
    count = len(latencies)
    ends = [count * part // PARTS for part in range(PARTS + 1)]
    return [float(latencies[start:end].mean()) for start, end in zip(ends, ends[1:], strict=False)] if count >= PARTS else []
