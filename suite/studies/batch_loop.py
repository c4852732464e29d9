"""The figures of a closed loop of queries that are each answered in one batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any, Final

from suite.measurement.student import compute_t_quantile
from suite.studies.run_facts import RunFacts
from suite.units import NS_PER_S

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
"""Field of the figures -> minimum number of queries, and the percentile in LoadGen's key: the
slowest of 71 is not a 99th percentile.
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
class LoopFigures:
    """The figures of a run; None was not measured, or not often enough."""

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
    times: int = 1
    """Length of the run, as a multiple of the seconds asked for."""


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


def compute_loop_figures(run: RunFacts, batch: int, times: int) -> LoopFigures | None:
    """Compute the figures of a run of `times` its length: the rate of a closed loop is a query's
    samples, or its mean number of tokens, over the mean latency. None for a log without them.
    """
    queries, mean_ns = run.find_number(QUERY_COUNT_KEY), run.find_number(MEAN_LATENCY_KEY)
    if not queries or not mean_ns or min(queries, mean_ns) < 0:
        return None
    shares = {
        name: run.find_number(format_percentile_key(share))
        for name, (least, share) in LATENCY_PERCENTILES.items()
        if queries >= least
    }
    if not all(value and value > 0 for value in shares.values()):
        return None
    low, high = compute_rate_interval(mean_ns, compute_part_means(run), batch)
    tokens = None if run.tokens is None else run.tokens.total
    return LoopFigures(
        queries=int(queries),
        samples_per_second=batch * NS_PER_S / mean_ns,
        tokens_per_second=None if tokens is None else tokens / queries * NS_PER_S / mean_ns,
        low=low,
        high=high,
        mean_latency_ns=mean_ns,
        **shares,
        times=times,
    )


def format_percentile_key(percentile: str) -> str:
    """Return LoadGen's key of a percentile of queries' latencies."""
    return f"result_{percentile}_percentile_per_query_latency_ns"


def compute_part_means(run: RunFacts) -> list[float]:
    """Cut the latencies of queries (ns) into ten consecutive parts, and return their means; none if
    there are fewer than ten, or no record of them.
    """
    if run.queries is None:
        return []
    latencies = run.queries.done_ns - run.queries.issued_ns
    count = len(latencies)
    if count < BATCH_MEANS_PARTS:
        return []
    ends = [count * part // BATCH_MEANS_PARTS for part in range(BATCH_MEANS_PARTS + 1)]
    parts = zip(ends, ends[1:], strict=False)
    return [float(latencies[start:end].mean()) for start, end in parts]


def compute_rate_interval(
    mean_ns: float, means_ns: Sequence[float], batch: int
) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the rate by batch means: the mean latencies of ten parts of the
    run, which are less correlated than queries. It lies about LoadGen's mean latency, which is
    longer than that of podium's stamps.

    Source: A. M. Law, Simulation Modeling and Analysis, section 9.5.3. None if there are fewer
    parts, or an end has no bound.
    """
    if len(means_ns) != BATCH_MEANS_PARTS:
        return None, None
    quantile = compute_t_quantile((1 + RATE_CONFIDENCE) / 2, BATCH_MEANS_PARTS - 1)
    half_ns = quantile * stdev(means_ns) / math.sqrt(BATCH_MEANS_PARTS)
    high = batch * NS_PER_S / (mean_ns - half_ns) if mean_ns > half_ns else None
    return batch * NS_PER_S / (mean_ns + half_ns), high


def choose_longer_run(figures: LoopFigures, seconds: float) -> int | None:
    """Return the multiple of `seconds` for which a point is measured again, as its interval is
    wide; None if it is narrow, unknown or long enough.

    A run of few slow queries may have taken longer than that multiple already.
    """
    if not (figures.samples_per_second and figures.low and figures.mean_latency_ns):
        return None
    half = ((figures.high or math.inf) - figures.low) / 2
    lasted_s = figures.queries * figures.mean_latency_ns / NS_PER_S
    if (
        half <= WIDE_INTERVAL_SHARE * figures.samples_per_second
        or lasted_s >= MAX_RUN_MULTIPLE * seconds
    ):
        return None
    longer = (times for times in (2, MAX_RUN_MULTIPLE) if times > figures.times)
    return next((times for times in longer if times * seconds > lasted_s), None)
