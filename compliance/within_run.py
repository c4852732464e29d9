"""How one LoadGen run went within itself: its rate and its latencies in ten equal slices of time, and an interval made of them.

Queries in a queue are not independent: an interval that takes them for independent is far too narrow. Slices of time, each long against what a
query waits, nearly are: "sectioning", S. Asmussen and P. W. Glynn, Stochastic Simulation, section III.5. Server's latencies begin when a query was
due, which its seed decides; the times are drawn again from the seed. What is found here tells of one run, never of a difference between two systems.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from compliance.loadgen_replay import Plan, first
from compliance.logs.loadgen.query_times import QueryTimes
from suite.loadgen.percentiles import place
from suite.loadgen.scenario import Scenario

SLICES: Final = 10
T_OF_SLICES: Final = 2.2621571627409915
"""Student's t, 97.5 %, 9 degrees of freedom: scipy.stats.t.ppf(0.975, 9)."""
LEAST_ROWS: Final = 8
"""House rule: completions in each slice, below which its rate is a matter of where a completion falls."""
LEAST_BEYOND: Final = 1.0
"""House rule: independent queries beyond the percentile in each slice. At fewer, intervals of simulated queues held the true percentile less than
85 times in 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """What ten slices of one run say of one of its figures."""

    slices: Sequence[float]
    value: float
    """Of the whole run, in the slices' unit."""
    low: float | None
    """95 % interval within this run; None where its queries do not carry one, as `problem` says."""
    high: float | None
    problem: str = ""


def edges(begin_ns: int, end_ns: int) -> Any:
    """Cut a span into equal slices: (SLICES + 1,)."""
    import numpy

    return numpy.linspace(begin_ns, end_ns, SLICES + 1)


def rates(queries: QueryTimes) -> tuple[list[float], list[int]]:
    """Give samples/s completed in each slice, and the number of completions behind it."""
    import numpy

    cut = edges(int(queries.issued_ns.min()), int(queries.done_ns.max()))
    samples, _ = numpy.histogram(queries.done_ns, cut, weights=queries.samples)
    rows, _ = numpy.histogram(queries.done_ns, cut)
    return (samples / (numpy.diff(cut) / 1e9)).tolist(), rows.tolist()


def usable(queries: QueryTimes | None) -> bool:
    """Tell whether there is a span to cut."""
    return queries is not None and len(queries) > 1 and int(queries.done_ns.max()) > int(queries.issued_ns.min())


def steady_rates(queries: QueryTimes, scenario: Scenario | None, by_length: bool) -> tuple[Sequence[float], Sequence[float]] | None:
    """Give the rates of the first half's slices and of the second's; None where the run is too short.

    None, too, where the pace is not the system's own: Server's follows the arrivals, and Offline's batches may be sorted by length.
    """
    if not usable(queries) or scenario in (None, Scenario.SERVER) or (scenario is Scenario.OFFLINE and by_length):
        return None
    found, rows = rates(queries)
    return (found[: SLICES // 2], found[SLICES // 2 :]) if min(rows) >= LEAST_ROWS else None


def offline(queries: QueryTimes, by_length: bool) -> Within | None:
    """Slice Offline's rate."""
    if not usable(queries):
        return None
    found, rows = rates(queries)
    span_s = (int(queries.done_ns.max()) - int(queries.issued_ns.min())) / 1e9
    value = float(queries.samples.sum()) / span_s
    if by_length:
        return Within(slices=found, value=value, low=None, high=None, problem="its batches are sorted by length, so slices differ by what is in them")
    if min(rows) < LEAST_ROWS:
        return Within(slices=found, value=value, low=None, high=None, problem=f"too few completions: {min(rows)} in a slice, {LEAST_ROWS} are needed")
    return sectioned(found, value)


def latencies(began_ns: Any, done_ns: Any, percentile: float) -> Within | None:
    """Slice a percentile of latencies, both arrays (queries,) in the order of the beginnings; in nanoseconds."""
    import numpy

    latency = numpy.asarray(done_ns) - numpy.asarray(began_ns)
    if len(latency) < SLICES or began_ns[-1] <= began_ns[0]:
        return None
    bounds = numpy.searchsorted(began_ns, edges(int(began_ns[0]), int(began_ns[-1]))[1:-1])
    parts = [numpy.sort(part) for part in numpy.split(latency, bounds)]
    if not all(map(len, parts)):
        return None
    found = [float(part[place(len(part), percentile)]) for part in parts]
    value = float(numpy.sort(latency)[place(len(latency), percentile)])
    beyond = independent(latency) / SLICES * (1 - percentile / 100)
    if beyond < LEAST_BEYOND:
        return Within(slices=found, value=value, low=None, high=None, problem="too few independent queries")
    return sectioned(found, value)


def independent(latency: Any) -> float:
    """Count the independent queries that so many dependent ones are worth, by the correlation of neighbours (that of a first-order process)."""
    import numpy

    centred = latency - latency.mean()
    spread = float(numpy.dot(centred, centred))
    share = max(0.0, float(numpy.dot(centred[1:], centred[:-1])) / spread) if spread else 0.0
    return len(latency) * (1 - share) / (1 + share)


def sectioned(slices: Sequence[float], value: float) -> Within:
    """Make the 95 % interval around the whole run's value."""
    spread = math.sqrt(sum((each - value) ** 2 for each in slices) / (len(slices) - 1))
    half = T_OF_SLICES * spread / math.sqrt(len(slices))
    return Within(slices=tuple(slices), value=value, low=max(0.0, value - half), high=value + half)


def due_ns(queries: QueryTimes, plan: Plan) -> Any:
    """Give when each query of a Server run was due, by the monotonic clock: (queries,).

    The schedule begins at an unknown moment. No query is issued before it is due, so the earliest beginning that any of them allows is the latest
    that all do.
    """
    import numpy

    due = numpy.array(first(plan.due_ns(), len(queries)), numpy.int64)
    return due + int((queries.issued_ns - due).min())


def percentiles_ns(began_ns: Any, done_ns: Any, percentiles: Sequence[float]) -> list[int]:
    """Give percentiles of latencies, by LoadGen's definition."""
    import numpy

    latency = numpy.sort(numpy.asarray(done_ns) - numpy.asarray(began_ns))
    return [int(latency[place(len(latency), each)]) for each in percentiles]

