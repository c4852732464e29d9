"""Check the record of a run's queries against LoadGen's counts, schedule and latencies. A run
counts without the record, so all findings are warnings.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from compliance import within_run
from compliance.documents.podium.inference import LoadGenRun
from compliance.loadgen_replay import ReplayPlan
from compliance.rules import rule
from compliance.rules.podium.inference.loadgen_draws import (
    DRAWN_TIME_TOLERANCE,
    MAX_REPLAYED_DRAWS,
    build_draw_plan,
    has_known_draw_order,
)
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

LATE_ARRIVAL_SHARE: Final = 0.25
"""Distance between the schedule and arrivals drawn from another seed: the square root of their
number, in mean gaps.
"""
LATE_ARRIVAL_NS: Final = 1e6
"""Maximum delay of LoadGen's thread on a host with other work."""
QUERY_LATENCY_TOLERANCE: Final = 0.1
"""Relative: LoadGen takes its own timestamps some microseconds later, and a crowded host may delay
a thread in between.
"""
QUERY_LATENCY_TOLERANCE_NS: Final = 2e6
COMPARED_PERCENTILES: Final = (50.0, 90.0)
"""Percentiles that are compared with LoadGen's; higher ones depend on single queries."""


@rule("queries.times", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def times(run: LoadGenRun) -> Iterator[Fault]:
    """In queries.npy, no query is done before it was issued, and rows are in the order of issue, or
    for Offline in the order of completion.

    Source: house rule; harness/serving/loadgen/query_times.py writes them in this order, with one
    monotonic clock.
    Advice: restore the file as the run wrote it, or remove it: the run counts without it, and
    comparisons use the run without it.
    """
    if run.queries is None or not len(run.queries):
        return
    early = int((run.queries.done_ns < run.queries.issued_ns).sum())
    if early:
        yield run.build_fault(
            QUERY_RECORD_FILE,
            f"{early} of {len(run.queries)} queries done before they were issued",
            "queries that are done after they were issued",
        )
    ordered = run.queries.done_ns if run.scenario is Scenario.OFFLINE else run.queries.issued_ns
    if bool((ordered[1:] < ordered[:-1]).any()):
        yield run.build_fault(
            QUERY_RECORD_FILE,
            "rows out of order",
            "rows in the order of issue or, for Offline, of completion",
        )


@rule("queries.count", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def count(run: LoadGenRun) -> Iterator[Fault]:
    """queries.npy has a row for each query that LoadGen counted, with its samples, in as many
    batches as run.json states.

    Source: house rule; mlcommons/inference, loadgen/results.cc: result_query_count. A record ends
    after 8,388,608 rows.
    Advice: restore the file as the run wrote it, or remove it: the run counts without it, and
    comparisons use the run without it.
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
            QUERY_RECORD_FILE,
            f"{samples} samples",
            f"{queries * per_query:.0f}, as LoadGen counted",
        )
    if run.scenario is not Scenario.OFFLINE and len(run.queries) != queries:
        yield run.build_fault(
            QUERY_RECORD_FILE,
            f"{len(run.queries)} rows",
            f"{queries:.0f}, as LoadGen counted",
        )
    batches = run.record.batches.get("count") if run.record else None
    if batches is not None and len(run.queries) and int(run.queries.batch.max()) >= batches:
        yield run.build_fault(
            QUERY_RECORD_FILE,
            f"a batch number {int(run.queries.batch.max())}",
            f"below {batches:g}, the batches in run.json",
        )


@rule("queries.arrivals", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def arrivals(run: LoadGenRun) -> Iterator[Fault]:
    """Server's queries arrive at the due times that LoadGen's seed draws.

    Source: mlcommons/inference, loadgen/loadgen.cc, GenerateQueries, repeated with
    schedule_rng_seed and rate; confirmed with LoadGen 6.0.17 on Linux.
    Advice: ignore this if the host was too slow to issue queries in time; otherwise queries.npy
    belongs to another run.
    """
    began = recompute_due_times(run)
    if began is None or run.queries is None:
        return
    import numpy

    plan_rate = len(began) / max(1.0, float(began[-1] - began[0]))
    late = float(numpy.median(run.queries.issued_ns - began))
    most = max(LATE_ARRIVAL_NS, LATE_ARRIVAL_SHARE * math.sqrt(len(began)) / plan_rate)
    if late > most:
        found = f"queries issued {late / NS_PER_MS:.3g} ms after they were due, in the median"
        yield run.build_fault(
            QUERY_RECORD_FILE,
            found,
            f"at most {most / NS_PER_MS:.3g} ms, if the seed drew the arrivals",
        )


@rule("queries.latencies", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def latencies(run: LoadGenRun) -> Iterator[Fault]:
    """The latencies in queries.npy match those that LoadGen measured; Server's latencies start when
    a query was due.

    Source: mlcommons/inference, loadgen/results.cc: percentiles of the sorted latencies; house
    rule: within a tenth, or 2 ms.
    Advice: restore the file as the run wrote it, or remove it: the run counts without it, and
    comparisons use the run without it.
    """
    began = (
        recompute_due_times(run)
        if run.scenario is Scenario.SERVER
        else run.queries.issued_ns
        if run.queries is not None
        else None
    )
    if (
        run.queries is None
        or began is None
        or not len(began)
        or run.scenario is Scenario.OFFLINE
        or len(began) >= MAX_QUERY_RECORD_ROWS
    ):
        return
    per_query = "per_query_" if run.scenario is Scenario.MULTI_STREAM else ""
    for percentile, found in zip(
        COMPARED_PERCENTILES,
        within_run.compute_percentiles_ns(began, run.queries.done_ns, COMPARED_PERCENTILES),
        strict=True,
    ):
        logged = run.find_number(f"result_{percentile:.2f}_percentile_{per_query}latency_ns")
        if logged is not None and abs(found - logged) > max(
            QUERY_LATENCY_TOLERANCE_NS, QUERY_LATENCY_TOLERANCE * logged
        ):
            yield run.build_fault(
                QUERY_RECORD_FILE,
                f"a {percentile:g}th percentile of {found / NS_PER_MS:.3f} ms",
                f"about {logged / NS_PER_MS:.3f} ms, as LoadGen measured",
            )


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
    return replace(plan, rate=float(rate)) if good and isinstance(rate, int | float) else plan
