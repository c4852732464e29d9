"""Check that the queries of the stream scenarios follow one another."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.recorded_times import (
    compute_clock_error_ms,
    has_whole_record,
    list_query_gaps_ns,
)
from compliance.kinds.podium.rules.inference.loadgen_numbers import WALL_STAMP_ERROR_MS
from compliance.kinds.podium.rules.inference.loadgen_summary import LOGGED_NUMBER_TOLERANCE
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

USUAL_BUSY_SHARE: Final = 0.9
"""Published runs of both streams have at least 0.929 (382 runs of inference v1.0 to v6.0)."""
MAX_WAIT_FACTOR: Final = 2.0
"""A thread waits for a core between two queries, on average, at most this many times as long as a
query takes beyond the fastest one.
"""
NEGLIGIBLE_IDLE_NS: Final = 1e6
"""Between two queries; LoadGen's own work takes far less, but exceeds latencies of microseconds."""
SHORT_GAPS_PERCENTILE: Final = 10.0
"""A thread that waits for a core does not wait each time: in runs beside 11 to 17 busy programs on
two cores a quarter of the gaps were below 0.1 ms, where their mean was 2.4 ms; in 135 real runs on
quiet and busy machines the shortest tenth was below 0.06 ms.
"""
FEW_GAPS: Final = 50
"""With fewer, it may be chance that a thread waited each time."""


@rule("loadgen.streams", LoadGenRun, About.SCORE)
def streams(run: LoadGenRun) -> Iterator[Fault]:
    """In the stream scenarios queries follow one another: all latencies together are no longer than
    the run, and no shorter than the latencies in queries.npy. queries.npy shows the rest of the
    run: LoadGen's thread is woken between two queries, and on a busy machine it may wait for a
    core. If this rest is more than a tenth of the run, and nine of ten gaps are long, both records
    were edited: a thread does not wait each time. With few queries that is a warning. Without
    queries.npy, a tenth of the run between the queries is an error, unless the latencies vary as
    much.

    Source: mlcommons/inference, loadgen/issue_query_controller.cc: SingleStream and MultiStream
    issue the next query once their thread wakes up behind the last completion; podium's stamps lie
    within LoadGen's, so that a wait between two stamps lengthens LoadGen's latencies alone.
    Advice: keep queries.npy and LoadGen's log of one run together: they show
    whether the machine was busy between the queries.
    """
    per_query = "query_" if run.scenario is Scenario.MULTI_STREAM else ""
    found = run.find_numbers("result_query_count", f"result_mean_{per_query}latency_ns")
    if (
        not run.performance
        or run.scenario not in (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)
        or found is None
        or found[0] <= 0
    ):
        return
    together = found[0] * found[1] / NS_PER_MS
    if run.span_ms is not None and together > run.span_ms * (1 + LOGGED_NUMBER_TOLERANCE) + 1:
        required = f"at most {run.span_ms:.0f} ms together"
        yield run.build_fault(
            f"{found[0]:.0f} queries of {found[1]:.0f} ns", required, "result_mean_latency_ns"
        )
    if has_whole_record(run):
        yield from check_recorded_latencies(run, together, found[0])
        return
    lowest = run.find_number(f"result_min_{per_query}latency_ns")
    yield from check_idle_time(
        run, together, found[0], found[1] - lowest if lowest is not None else math.inf
    )


def check_recorded_latencies(
    run: LoadGenRun, together_ms: float, queries: float
) -> Iterator[Fault]:
    """Check the sum of LoadGen's latencies against the record's, which LoadGen's stamps enclose,
    and the time between the queries against the shortest gaps in the record.
    """
    import numpy

    assert run.queries is not None
    recorded_ms = float((run.queries.done_ns - run.queries.issued_ns).sum()) / NS_PER_MS
    error_ms = queries / NS_PER_MS + compute_clock_error_ms(run, recorded_ms)
    if together_ms < recorded_ms - error_ms:  # LoadGen cuts the mean to whole ns
        yield run.build_fault(
            f"{queries:.0f} queries take {together_ms:.0f} ms together",
            f"at least {recorded_ms:.0f} ms, as in {QUERY_RECORD_FILE}",
            "power_end",
        )
        return
    wall, gaps = run.wall_ms, list_query_gaps_ns(run)
    if (
        wall is None
        or not len(gaps)
        or together_ms >= USUAL_BUSY_SHARE * wall - WALL_STAMP_ERROR_MS
    ):
        return
    shortest_ns = float(numpy.percentile(gaps, SHORT_GAPS_PERCENTILE))
    if shortest_ns > NEGLIGIBLE_IDLE_NS:
        fault = run.build_fault(
            f"{wall - together_ms:.0f} of {wall:.0f} ms between the queries, and nine of ten gaps"
            f" in {QUERY_RECORD_FILE} longer than {shortest_ns / NS_PER_MS:.1f} ms",
            f"a tenth of the gaps within {NEGLIGIBLE_IDLE_NS / NS_PER_MS:g} ms, if LoadGen's thread"
            " waited for a core",
            "power_end",
        )
        yield replace(fault, severity=Severity.WARNING) if len(gaps) < FEW_GAPS else fault


def check_idle_time(
    run: LoadGenRun, together_ms: float, queries: float, waited_ns: float
) -> Iterator[Fault]:
    """Check the time between the queries of a run without their record, from LoadGen's timestamps
    around the first and the last; `waited_ns` is the time of a query beyond the fastest one.
    """
    wall = run.wall_ms
    if (
        wall is None
        or (between_ns := (wall - together_ms) * NS_PER_MS / queries) < NEGLIGIBLE_IDLE_NS
        or together_ms >= USUAL_BUSY_SHARE * wall - WALL_STAMP_ERROR_MS
    ):
        return
    is_explained = between_ns <= NEGLIGIBLE_IDLE_NS + MAX_WAIT_FACTOR * waited_ns
    fault = run.build_fault(
        f"{queries:.0f} queries take {together_ms:.0f} ms together",
        f"at least {USUAL_BUSY_SHARE:.0%} of the {wall:.0f} ms around them, or a"
        f" {QUERY_RECORD_FILE} that shows the time between them",
        "power_end",
    )
    yield replace(fault, severity=Severity.WARNING if is_explained else Severity.ERROR)
