"""Check the record of a run's queries against LoadGen's counts, schedule and latencies. A run
counts without the record, so all findings are warnings.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from compliance import within_run
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.recorded_times import WALL_CLOCK_DRIFT
from compliance.kinds.podium.rules.inference.loadgen_draws import (
    DRAWN_TIME_TOLERANCE,
    MAX_REPLAYED_DRAWS,
    build_draw_plan,
    has_known_draw_order,
)
from compliance.loadgen_replay import ReplayPlan
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

LATE_ARRIVAL_SHARE: Final = 0.25
"""Distance between the schedule and arrivals drawn from another seed: the square root of their
number, in mean gaps.
"""
LATE_ARRIVAL_NS: Final = 1e6
"""Usual delay of LoadGen's thread on a host with other work."""
PROMPT_ARRIVAL_SHARE: Final = 0.2
PROMPT_ARRIVAL_NS: Final = 2e4
"""A quarter of the queries is issued within so many mean gaps of the time that they are due or,
where LoadGen's thread is behind, of the query before: a thread that had to wait for a core then
issues all that is due, one after the other. Of arrivals drawn from another seed it is 0.29 of
a mean gap or more.
"""
PROMPT_PERCENTILE: Final = 25.0
QUERY_LATENCY_TOLERANCE: Final = 0.1
"""Relative, in Server: LoadGen takes its own timestamps some microseconds later, and a crowded host
may delay a thread in between.
"""
QUERY_LATENCY_TOLERANCE_NS: Final = 2e6
STREAM_LATENCY_TOLERANCE_NS: Final = 1e3
"""Of a stream's latencies, whose bounds are stamps; the clocks count in nanoseconds."""
COMPARED_PERCENTILES: Final = (50.0, 90.0)
"""Percentiles that are compared with LoadGen's; higher ones depend on single queries."""


@rule("queries.times", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def times(run: LoadGenRun) -> Iterator[Fault]:
    """In queries.npy, no query is done before it was issued, and rows are in the order of issue, or
    for Offline in the order of completion.

    Source: house rule; harness/serving/loadgen/query_times.py writes them in this order, with one
    monotonic clock.
    Advice: keep queries.npy and LoadGen's log of one run together; comparisons
    use the run without a record that does not fit it.
    """
    if run.queries is None or not len(run.queries):
        return
    early = int((run.queries.done_ns < run.queries.issued_ns).sum())
    if early:
        yield run.build_fault(
            f"{early} of {len(run.queries)} queries done before they were issued",
            "queries that are done after they were issued",
            file=QUERY_RECORD_FILE,
        )
    ordered = run.queries.done_ns if run.scenario is Scenario.OFFLINE else run.queries.issued_ns
    if bool((ordered[1:] < ordered[:-1]).any()):
        yield run.build_fault(
            "rows out of order",
            "rows in the order of issue or, for Offline, of completion",
            file=QUERY_RECORD_FILE,
        )


@rule("queries.count", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def count(run: LoadGenRun) -> Iterator[Fault]:
    """queries.npy has a row for each query that LoadGen counted, with its samples, in as many
    batches as run.json states.

    Source: house rule; mlcommons/inference, loadgen/results.cc: result_query_count. A record ends
    after 8,388,608 rows.
    Advice: keep queries.npy and LoadGen's log of one run together; comparisons
    use the run without a record that does not fit it.
    """
    queries, per_query = (
        run.find_number("result_query_count"),
        run.find_number("generated_samples_per_query"),
    )
    if (
        run.queries is None
        or queries is None
        or per_query is None
        or len(run.queries) >= MAX_QUERY_RECORD_ROWS
    ):
        return
    samples = int(run.queries.samples.sum())
    if samples != queries * per_query:
        yield run.build_fault(
            f"{samples} samples",
            f"{queries * per_query:.0f}, as LoadGen counted",
            file=QUERY_RECORD_FILE,
        )
    if run.scenario is not Scenario.OFFLINE and len(run.queries) != queries:
        yield run.build_fault(
            f"{len(run.queries)} rows", f"{queries:.0f}, as LoadGen counted", file=QUERY_RECORD_FILE
        )
    batches = run.record.batches.get("count") if run.record else None
    if batches is not None and len(run.queries) and int(run.queries.batch.max()) >= batches:
        yield run.build_fault(
            f"a batch number {int(run.queries.batch.max())}",
            f"below {batches:g}, the batches in run.json",
            file=QUERY_RECORD_FILE,
        )


@rule("queries.arrivals", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def arrivals(run: LoadGenRun) -> Iterator[Fault]:
    """Server's queries arrive at the due times that LoadGen's seed draws, or at once when LoadGen's
    thread gets a core again.

    Source: mlcommons/inference, loadgen/loadgen.cc, GenerateQueries, repeated with
    schedule_rng_seed and rate; confirmed with LoadGen 6.0.17 on Linux. A thread that had to wait
    issues all queries that are due meanwhile, one after the other.
    Advice: keep queries.npy and LoadGen's log of one run together; comparisons
    use the run without a record that does not fit it.
    """
    began = recompute_due_times(run)
    if began is None or run.queries is None:
        return
    import numpy

    plan_rate = len(began) / max(1.0, float(began[-1] - began[0]))
    issued = run.queries.issued_ns
    late = float(numpy.median(issued - began))
    most = max(LATE_ARRIVAL_NS, LATE_ARRIVAL_SHARE * math.sqrt(len(began)) / plan_rate)
    waited = issued[1:] - numpy.maximum(began[1:], issued[:-1])
    prompt = float(numpy.percentile(waited, PROMPT_PERCENTILE)) if len(waited) else 0.0
    if late > most and prompt > max(PROMPT_ARRIVAL_NS, PROMPT_ARRIVAL_SHARE / plan_rate):
        found = f"queries issued {late / NS_PER_MS:.3g} ms after they were due, in the median"
        yield run.build_fault(
            found,
            f"at most {most / NS_PER_MS:.3g} ms, if the seed drew the arrivals",
            file=QUERY_RECORD_FILE,
        )


@rule("queries.latencies", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def latencies(run: LoadGenRun) -> Iterator[Fault]:
    """The latencies in queries.npy match LoadGen's. Server's latencies start when a query was due.

    Source: mlcommons/inference, loadgen/results.cc: percentiles of the sorted latencies. A stream's
    query begins, for LoadGen, between podium's stamps of the completion before and of its issue,
    and ends between its completion and the next issue. House rule for Server: within a tenth, or
    2 ms.
    Advice: keep queries.npy and LoadGen's log of one run together; comparisons
    use the run without a record that does not fit it.
    """
    bounds = compute_latency_bounds(run)
    if bounds is None:
        return
    per_query = "per_query_" if run.scenario is Scenario.MULTI_STREAM else ""
    for percentile, found, least, most in zip(
        COMPARED_PERCENTILES, *map(select_compared_percentiles, bounds), strict=True
    ):
        logged = run.find_number(f"result_{percentile:.2f}_percentile_{per_query}latency_ns")
        if logged is not None and not least <= logged <= most:
            yield run.build_fault(
                f"a {percentile:g}th percentile of {found / NS_PER_MS:.3f} ms",
                f"about {logged / NS_PER_MS:.3f} ms, as LoadGen measured",
                file=QUERY_RECORD_FILE,
            )


def compute_latency_bounds(run: LoadGenRun) -> tuple[Any, Any, Any] | None:
    """Return three arrays (queries,): the recorded latencies in ns, and the least and the most that
    LoadGen may have measured; None in Offline, and without a whole record.
    """
    import numpy

    queries = run.queries
    if queries is None or not 0 < len(queries) < MAX_QUERY_RECORD_ROWS:
        return None
    if run.scenario is Scenario.SERVER:
        due = recompute_due_times(run)
        if due is None:
            return None
        found = (queries.done_ns - due).astype(float)
        slack = numpy.maximum(QUERY_LATENCY_TOLERANCE_NS, QUERY_LATENCY_TOLERANCE * found)
        return found, found - slack, found + slack
    if run.scenario not in (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM):
        return None
    found = (queries.done_ns - queries.issued_ns).astype(float)
    most = numpy.full(len(found), numpy.inf)  # what is before the first and behind the last?
    most[1:-1] = queries.issued_ns[2:] - queries.done_ns[:-2]
    slack = STREAM_LATENCY_TOLERANCE_NS + WALL_CLOCK_DRIFT * found
    return found, found - slack, most + slack


def select_compared_percentiles(latencies_ns: Any) -> list[float]:
    """Return the compared percentiles of an array (queries,), by LoadGen's definition."""
    import numpy

    ordered = numpy.sort(latencies_ns)
    return [
        float(ordered[compute_percentile_index(len(ordered), each)])
        for each in COMPARED_PERCENTILES
    ]


def recompute_due_times(run: LoadGenRun) -> Any:
    """Return when each query of a Server run was due, by the monotonic clock; None if that cannot
    be recomputed.
    """
    plan = build_draw_plan(run) if run.scenario is Scenario.SERVER and run.performance else None
    if (
        plan is None
        or run.queries is None
        or not 0 < len(run.queries) <= min(MAX_REPLAYED_DRAWS, plan.queries)
        or not has_known_draw_order(run)
    ):
        return None
    return within_run.compute_query_due_ns(run.queries, apply_recorded_rate(run, plan))


def apply_recorded_rate(run: LoadGenRun, plan: ReplayPlan) -> ReplayPlan:
    """Return the rate of run.json, which has all digits, if it matches the log's."""
    rate = run.record.settings.get("server.target_qps") if run.record else None
    good = (
        isinstance(rate, int | float) and abs(rate - plan.rate) <= DRAWN_TIME_TOLERANCE * plan.rate
    )
    if good and isinstance(rate, int | float):
        return replace(plan, rate=float(rate))
    return plan
