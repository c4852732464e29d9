"""The documents of a study: `point.json` next to each point's LoadGen files, and `study.json` with
the table.

The harness writes them and the judge recomputes them, both with the formulas in this module.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Final

from suite.measurement.student import compute_t_quantile
from suite.measurement.widest import select_widest_energies
from suite.records import EnergyRecord
from suite.units import NS_PER_MS, NS_PER_S

STUDIES_FOLDER: Final = "studies"
SWEEP_KIND: Final = "sweep"
"""The kind of a sweep's study; suite/studies/rates.py has the others."""
STUDY_FILE: Final = "study.json"
POINT_FILE: Final = "point.json"
IDLE_TELEMETRY_FILE: Final = "idle.jsonl"
"""Telemetry from before the first point, if power can be read."""
STUDY_ACCURACY_FOLDER: Final = "accuracy"
STUDY_TRUTH_FOLDER: Final = "truth"
SAMPLES_LIST_FILE: Final = "samples.txt"
"""In the ground truth of a bare network: the samples that it was scored on, names and bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointIdentity:
    """Identity of a measured point: equal identities need not be measured twice."""

    subject: str
    """Name of a workload or of a bare network."""
    bare: bool
    weights: str
    """SHA-256 of the checkpoint or of the file of weights; `random, seed N` for a bare network
    without weights.
    """
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
    system: str = ""
    """Name of the machine; empty in studies of earlier versions, as are the fields below."""
    times: int = 1
    """Length of the run, as a multiple of `seconds`; no part of the identity."""
    lost: tuple[str, ...] = ()
    """Which records beside the run were lost, and why; no part of the identity."""


P90_MIN_QUERIES: Final = 64
P99_MIN_QUERIES: Final = 662
"""Minimum number of queries from which LoadGen estimates the percentile with 99 % confidence.
Source: loadgen/early_stopping.cc, MinPassingQueriesFinder.
"""
LATENCY_PERCENTILES: Final = {
    "p50_ns": (0, "50.00"),
    "p90_ns": (P90_MIN_QUERIES, "90.00"),
    "p99_ns": (P99_MIN_QUERIES, "99.00"),
}
"""Field of a row -> minimum number of queries, and the percentile in LoadGen's key: the slowest of
71 is not a 99th percentile.
"""
QUERY_COUNT_KEY: Final = "result_query_count"
MEAN_LATENCY_KEY: Final = "result_mean_query_latency_ns"
WIDE_INTERVAL_SHARE: Final = 0.05
"""House rule: half the width of a rate's interval, as a share of the rate, from which a point is
measured again for longer.
"""
MAX_RUN_MULTIPLE: Final = 4
"""House rule: a point is measured for at most this multiple of the seconds asked for."""
BATCH_MEANS_PARTS: Final = 10
RATE_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRow:
    """One point of the table; None was not measured, or not often enough."""

    engine: str
    precision: str
    batch: int
    folder: str
    """Folder of the LoadGen run, relative to the study's; empty if there is none."""
    queries: int = 0
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    """Of answers that are generated token by token, by the record of tokens beside the run."""
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
    times: int = 1
    """Length of the run, as a multiple of the seconds asked for."""
    energy: tuple[EnergyRecord, ...] = ()
    """One record per power channel that was read beside the point."""
    no_energy: tuple[str, ...] = ()
    """Why a channel gave no energy."""
    why: str = ""
    """Why there is no figure: not enough memory, or what this batch size alone cannot do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDrift:
    """The first point, measured again at the end."""

    engine: str
    precision: str
    batch: int
    folder: str
    samples_per_second: float
    change: float
    """Second rate / first rate - 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestBatch:
    """The largest measured batch whose tail latency is within the budget."""

    engine: str
    precision: str
    batch: int
    samples_per_second: float
    latency_ns: float
    by: str
    """p99; mean if a point has too few queries for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPoints:
    """Points requested of one engine and precision, by this sweep and by earlier ones."""

    engine: str
    precision: str
    framework: str
    batches: tuple[int, ...]
    settings: dict[str, Any]
    """Shared by all points; `build_batch_settings` has the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """What the last sweep asked for."""

    subjects: tuple[str, ...]
    """Workloads, then networks."""
    engines: tuple[str, ...]
    precisions: tuple[str, ...]
    batches: tuple[int, ...]
    order: tuple[str, ...]
    """Of the points: `subject engine precision batch`; `order_sweep_points` draws it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyMachine:
    """The processor and the software that a study was measured with, and its commands."""

    processor: str
    """Model of the processors; empty if the machine does not tell it."""
    processors: int | None
    """Number of them; None if the machine does not tell it."""
    packages: dict[str, str]
    """Installed distribution -> version."""
    commands: tuple[tuple[str, ...], ...]
    """Command lines, in the order in which they first ran."""


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
    rows: tuple[StudyRow, ...]
    drift: tuple[RateDrift, ...]
    best: tuple[BestBatch, ...]
    idle: tuple[EnergyRecord, ...] = ()
    """What the machine drew before the first point; never subtracted."""
    version: str
    finished: bool = True
    """False while a sweep is under way: points may be missing."""
    command: SweepRequest | None = None
    """None in studies of earlier versions, which do not say what was asked for."""
    asked: tuple[RequestedPoints, ...] = ()
    """One for each engine and number format."""
    reference: dict[str, float] = field(default_factory=dict)
    """Reference accuracy of a workload's checkpoint."""
    machine: StudyMachine | None = None
    """None in studies of earlier versions."""


def build_batch_settings(batch: int) -> dict[str, Any]:
    """Return the settings of a point that its batch size decides: each query is answered at once,
    in one batch.
    """
    return {
        "batching.max_batch": batch,
        "batching.workers": 1,
        "batching.window_us": 0,
        "batching.only_full": True,
    }


def order_sweep_points(
    subjects: Sequence[str],
    engines: Sequence[str],
    precisions: Sequence[str],
    batches: Sequence[int],
    seed: int,
) -> tuple[str, ...]:
    """Return the order of a sweep's points: the smallest batch of each series, then the others in a
    random order drawn by the seed.
    """
    series = [
        f"{subject} {engine} {precision}"
        for engine in engines
        for precision in precisions
        for subject in subjects
    ]
    rest = [f"{one} {batch}" for one in series for batch in batches if batch != min(batches)]
    random.Random(seed).shuffle(rest)
    return (*(f"{one} {min(batches)}" for one in series), *rest)


def choose_longer_run(row: StudyRow, seconds: float) -> int | None:
    """Return the multiple of `seconds` for which a point is measured again, as its interval is
    wide; None if it is narrow, unknown or long enough.

    A run of few slow queries may have taken longer than that multiple already.
    """
    if not (row.samples_per_second and row.low and row.mean_latency_ns):
        return None
    half = ((row.high or math.inf) - row.low) / 2
    lasted_s = row.queries * row.mean_latency_ns / NS_PER_S
    if (
        half <= WIDE_INTERVAL_SHARE * row.samples_per_second
        or lasted_s >= MAX_RUN_MULTIPLE * seconds
    ):
        return None
    return next(
        (
            times
            for times in (2, MAX_RUN_MULTIPLE)
            if times > row.times and times * seconds > lasted_s
        ),
        None,
    )


def select_shown_energy(energy: Sequence[EnergyRecord]) -> EnergyRecord | None:
    """Return the energy that a table shows: the system's by the best grade, else that of all parts
    together.
    """
    return next(iter(select_widest_energies(energy)), None)


def select_best_batches(rows: Sequence[StudyRow], within_ms: float | None) -> tuple[BestBatch, ...]:
    """Return the largest batch within the budget for each engine and number format; only measured
    points count.
    """
    if within_ms is None:
        return ()
    found: dict[tuple[str, str], BestBatch] = {}
    for row in sorted(rows, key=lambda row: row.batch):
        latency, by = (
            (row.p99_ns, "p99") if row.p99_ns is not None else (row.mean_latency_ns, "mean")
        )
        if (
            latency is not None
            and row.samples_per_second is not None
            and latency <= within_ms * NS_PER_MS
        ):
            found[row.engine, row.precision] = BestBatch(
                engine=row.engine,
                precision=row.precision,
                batch=row.batch,
                samples_per_second=row.samples_per_second,
                latency_ns=latency,
                by=by,
            )
    return tuple(found.values())


def format_percentile_key(percentile: str) -> str:
    """Return LoadGen's key of a percentile of queries' latencies."""
    return f"result_{percentile}_percentile_per_query_latency_ns"


def compute_row_cells(
    value: Callable[[str], float], batch: int, tokens: int | None = None
) -> dict[str, Any]:
    """Return the cells computed from LoadGen's detail log: the rate of a closed loop is a query's
    samples, or its mean number of tokens, over the mean latency. `tokens`: those of all answers,
    if they were recorded.
    """
    queries, mean_ns = int(value(QUERY_COUNT_KEY)), value(MEAN_LATENCY_KEY)
    shares = {
        name: value(format_percentile_key(share))
        for name, (least, share) in LATENCY_PERCENTILES.items()
        if queries >= least
    }
    return {
        "queries": queries,
        "samples_per_second": batch * NS_PER_S / mean_ns,
        "tokens_per_second": (
            tokens / queries * NS_PER_S / mean_ns if tokens is not None and queries else None
        ),
        "mean_latency_ns": mean_ns,
        **shares,
    }


def compute_rate_interval(
    means_ns: Sequence[float], batch: int
) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the rate by batch means: the mean latencies of ten parts of the
    run, which are less correlated than queries.

    Source: A. M. Law, Simulation Modeling and Analysis, section 9.5.3. None if there are fewer
    parts, or an end has no bound.
    """
    if len(means_ns) != BATCH_MEANS_PARTS:
        return None, None
    mean_ns, half_ns = (
        fmean(means_ns),
        compute_t_quantile((1 + RATE_CONFIDENCE) / 2, BATCH_MEANS_PARTS - 1)
        * stdev(means_ns)
        / math.sqrt(BATCH_MEANS_PARTS),
    )
    return batch * NS_PER_S / (mean_ns + half_ns), (
        batch * NS_PER_S / (mean_ns - half_ns) if mean_ns > half_ns else None
    )


def compute_part_means(latencies: Any) -> list[float]:
    """Cut the latencies of queries (an array, ns) into ten consecutive parts, and return their
    means; none if there are fewer than ten.
    """
    count = len(latencies)
    ends = [count * part // BATCH_MEANS_PARTS for part in range(BATCH_MEANS_PARTS + 1)]
    return (
        [float(latencies[start:end].mean()) for start, end in zip(ends, ends[1:], strict=False)]
        if count >= BATCH_MEANS_PARTS
        else []
    )
