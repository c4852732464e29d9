"""Variation within one LoadGen run: its rate and latencies in ten equal time slices, and a
confidence interval from them.

Queries in a queue are not independent; an interval that assumes so is far too narrow. Time slices
that are long compared with a query's waiting time nearly are: "sectioning", S. Asmussen and P. W.
Glynn, Stochastic Simulation, section III.5. Server latencies start when a query was due, which its
seed determines; those times are redrawn from the seed. These figures describe one run, never a
difference between two systems.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from compliance.loadgen_replay import ReplayPlan, take_first_values
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.query_record import QueryTimes
from suite.loadgen.scenario import Scenario

TIME_SLICES: Final = 10
STUDENT_T_OF_SLICES: Final = 2.2621571627409915
"""Student's t, 97.5 %, 9 degrees of freedom: scipy.stats.t.ppf(0.975, 9)."""
MIN_COMPLETIONS_PER_SLICE: Final = 8
"""House rule: minimum completions per slice; with fewer, a slice's rate depends on which side of
its edge a completion falls.
"""
MIN_QUERIES_BEYOND_PERCENTILE: Final = 1.0
"""House rule: minimum independent queries beyond the percentile per slice. With fewer, intervals of
simulated queues covered the true percentile less than 85 times in 100.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithinRunInterval:
    """One figure of a run, with its interval from ten slices."""

    slices: Sequence[float]
    value: float
    """Value over the whole run, in the slices' unit."""
    low: float | None
    """95 % interval within this run; None if its queries do not support one, for the reason in
    `problem`.
    """
    high: float | None
    problem: str = ""


def compute_slice_edges(begin_ns: int, end_ns: int) -> Any:
    """Divide a span into equal slices; edges (TIME_SLICES + 1,)."""
    import numpy

    return numpy.linspace(begin_ns, end_ns, TIME_SLICES + 1)


def compute_slice_rates(queries: QueryTimes) -> tuple[list[float], list[int]]:
    """Return the samples/s completed in each slice, and the number of completions per slice."""
    import numpy

    cut = compute_slice_edges(int(queries.issued_ns.min()), int(queries.done_ns.max()))
    samples, _ = numpy.histogram(queries.done_ns, cut, weights=queries.samples)
    rows, _ = numpy.histogram(queries.done_ns, cut)
    return (samples / (numpy.diff(cut) / 1e9)).tolist(), rows.tolist()


def has_time_span(queries: QueryTimes | None) -> bool:
    """Return whether there is a span to divide."""
    return (
        queries is not None
        and len(queries) > 1
        and int(queries.done_ns.max()) > int(queries.issued_ns.min())
    )


def compute_half_rates(
    queries: QueryTimes, scenario: Scenario | None, by_length: bool
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return the rates of the first half's slices and of the second's; None if the run is too
    short.

    Also None if the system does not set its own pace: Server follows the arrivals, and Offline's
    batches may be sorted by length.
    """
    if (
        not has_time_span(queries)
        or scenario in (None, Scenario.SERVER)
        or (scenario is Scenario.OFFLINE and by_length)
    ):
        return None
    found, rows = compute_slice_rates(queries)
    if min(rows) >= MIN_COMPLETIONS_PER_SLICE:
        return (found[: TIME_SLICES // 2], found[TIME_SLICES // 2 :])
    return None


def estimate_offline_rate(queries: QueryTimes, by_length: bool) -> WithinRunInterval | None:
    """Compute Offline's rate and its interval from slices."""
    if not has_time_span(queries):
        return None
    found, rows = compute_slice_rates(queries)
    span_s = (int(queries.done_ns.max()) - int(queries.issued_ns.min())) / 1e9
    value = float(queries.samples.sum()) / span_s
    if by_length:
        return WithinRunInterval(
            slices=found,
            value=value,
            low=None,
            high=None,
            problem="its batches are sorted by length, so slices have different content",
        )
    if min(rows) < MIN_COMPLETIONS_PER_SLICE:
        return WithinRunInterval(
            slices=found,
            value=value,
            low=None,
            high=None,
            problem=(
                f"too few completions: {min(rows)} in a slice, at least"
                f" {MIN_COMPLETIONS_PER_SLICE} required"
            ),
        )
    return estimate_slice_interval(found, value)


def estimate_latency_percentile(
    began_ns: Any, done_ns: Any, percentile: float
) -> WithinRunInterval | None:
    """Compute a latency percentile and its interval; both arrays are (queries,), in order of start
    time, in nanoseconds.
    """
    import numpy

    latency = numpy.asarray(done_ns) - numpy.asarray(began_ns)
    if len(latency) < TIME_SLICES or began_ns[-1] <= began_ns[0]:
        return None
    bounds = numpy.searchsorted(
        began_ns, compute_slice_edges(int(began_ns[0]), int(began_ns[-1]))[1:-1]
    )
    parts = [numpy.sort(part) for part in numpy.split(latency, bounds)]
    if not all(map(len, parts)):
        return None
    found = [float(part[compute_percentile_index(len(part), percentile)]) for part in parts]
    value = float(numpy.sort(latency)[compute_percentile_index(len(latency), percentile)])
    beyond = estimate_independent_queries(latency) / TIME_SLICES * (1 - percentile / 100)
    if beyond < MIN_QUERIES_BEYOND_PERCENTILE:
        return WithinRunInterval(
            slices=found, value=value, low=None, high=None, problem="too few independent queries"
        )
    return estimate_slice_interval(found, value)


def estimate_independent_queries(latency: Any) -> float:
    """Return the effective number of independent queries, from the correlation of neighbours (as in
    a first-order process).
    """
    import numpy

    centred = latency - latency.mean()
    spread = float(numpy.dot(centred, centred))
    share = 0.0
    if spread:
        share = max(0.0, float(numpy.dot(centred[1:], centred[:-1])) / spread)
    return len(latency) * (1 - share) / (1 + share)


def estimate_slice_interval(slices: Sequence[float], value: float) -> WithinRunInterval:
    """Build the 95 % interval around the whole run's value."""
    spread = math.sqrt(sum((each - value) ** 2 for each in slices) / (len(slices) - 1))
    half = STUDENT_T_OF_SLICES * spread / math.sqrt(len(slices))
    return WithinRunInterval(
        slices=tuple(slices), value=value, low=max(0.0, value - half), high=value + half
    )


def compute_query_due_ns(queries: QueryTimes, plan: ReplayPlan) -> Any:
    """Return when each query of a Server run was due, by the monotonic clock: (queries,).

    The start of the schedule is unknown. No query is issued before it is due, so the earliest start
    that any query allows is the latest that all allow.
    """
    import numpy

    due = numpy.array(take_first_values(plan.replay_due_ns(), len(queries)), numpy.int64)
    return due + int((queries.issued_ns - due).min())


def compute_percentiles_ns(began_ns: Any, done_ns: Any, percentiles: Sequence[float]) -> list[int]:
    """Return percentiles of latencies, by LoadGen's definition."""
    import numpy

    latency = numpy.sort(numpy.asarray(done_ns) - numpy.asarray(began_ns))
    return [int(latency[compute_percentile_index(len(latency), each)]) for each in percentiles]
