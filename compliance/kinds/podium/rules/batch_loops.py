"""Check the closed loops of studies: LoadGen's latencies against the time of the run and against
the record of its queries.
"""

from collections.abc import Iterator
from typing import Any, Final

from compliance.kinds.podium.documents.measured_study import JudgedStudy, StudyRun
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE, TELEMETRY_FILE
from suite.loadgen.scenario import Scenario
from suite.studies.batch_loop import (
    LATENCY_PERCENTILES,
    MEAN_LATENCY_KEY,
    QUERY_COUNT_KEY,
    format_percentile_key,
)
from suite.studies.documents import POINT_FILE
from suite.units import NS_PER_MS

MAX_LOOP_GAP_SHARE: Final = 0.02
"""House rule: share of a closed loop's time between its queries."""
MAX_LOOP_EDGE_MS: Final = 250.0
"""House rule: LoadGen's time between its timestamps and the first query, and after the last."""
MAX_QUERY_OVERHEAD_MS: Final = 0.1
"""House rule: LoadGen's own work on a query, on a busy machine."""
MAX_SHARE_BELOW_RECORD: Final = 1e-3
"""House rule: share by which LoadGen's latencies may be below the record's, which LoadGen's clock
encloses.
"""
MAX_SHARE_ABOVE_RECORD: Final = 0.05
"""House rule: share by which they may be above it, on a busy machine, in addition to
MAX_QUERY_OVERHEAD_MS.
"""


def iterate_batch_loops(study: JudgedStudy) -> Iterator[StudyRun]:
    """Yield the runs of MultiStream that do not keep the round's rules for runs, so that no other
    rule checks their latencies.
    """
    for run in study.runs:
        planned = run.planned
        is_loop = planned is not None and planned.scenario is Scenario.MULTI_STREAM
        if planned is not None and is_loop and not planned.keeps_round:
            yield run


def find_positive_number(run: StudyRun, key: str) -> float | None:
    """Return a value of the detail log as a finite number above 0, or None."""
    value = run.run.find_number(key)
    return value if value is not None and value > 0 else None


@rule("study.loop", JudgedStudy, About.SCORE)
def loop(study: JudgedStudy) -> Iterator[Fault]:
    """The queries of a closed loop fill its time, one after another.

    Source: mlcommons/inference, loadgen/issue_query_controller.cc: since LoadGen 2.0, MultiStream
    issues a query when the last one is complete. Its latencies lie within its log's times, so that
    more time in queries than the run took is an error; less is a warning, since LoadGen's thread
    may have waited for a core between two queries.
    Advice: measure the point again if a busy machine held it up; keep LoadGen's files of one run
    together.
    """
    for run in iterate_batch_loops(study):
        queries = find_positive_number(run, QUERY_COUNT_KEY)
        mean_ns = find_positive_number(run, MEAN_LATENCY_KEY)
        begin, end = map(run.run.find_record, ("generated_query_count", "result_validity"))
        if not (queries and mean_ns and begin and end):
            yield run.run.build_fault(
                "no count of queries, or no mean latency",
                f"{QUERY_COUNT_KEY} and {MEAN_LATENCY_KEY}",
            )
            continue
        busy_ms, span_ms = queries * mean_ns / 1e6, end.event.time_ms - begin.event.time_ms
        gaps_ms = queries * MAX_QUERY_OVERHEAD_MS + 2 * MAX_LOOP_EDGE_MS
        if busy_ms <= span_ms <= busy_ms * (1 + MAX_LOOP_GAP_SHARE) + gaps_ms:
            continue
        severity = None if busy_ms > span_ms else Severity.WARNING  # a busy machine delays LoadGen
        found = f"{queries:.0f} queries of {mean_ns / 1e6:.3f} ms take {busy_ms:.0f} ms"
        yield run.run.build_fault(
            found, f"about the run's {span_ms:.0f} ms", MEAN_LATENCY_KEY, severity=severity
        )


@rule("study.queries", JudgedStudy, About.SCORE)
def queries(study: JudgedStudy) -> Iterator[Fault]:
    """LoadGen's mean and percentiles of a closed loop match its record of queries, in which each
    query is within LoadGen's own time.

    Source: harness/serving/loadgen/batching.py; loadgen/results.cc: of n latencies in order,
    percentile p is the one at place n x p. podium's stamps lie within LoadGen's: its latencies are
    never shorter than the record's, and longer where its thread had to wait.
    Advice: measure the point again if a busy machine held it up; keep the record of queries and
    LoadGen's log of one run together.
    """
    for run in iterate_batch_loops(study):
        found = run.run.queries
        if found is None or not len(found):
            continue
        latencies_ns = found.done_ns - found.issued_ns
        if find_positive_number(run, QUERY_COUNT_KEY) != (count := len(latencies_ns)):
            yield run.run.build_fault(
                f"{QUERY_COUNT_KEY} {run.run.find_value(QUERY_COUNT_KEY)!r}",
                f"{count}, as in {QUERY_RECORD_FILE}",
                QUERY_COUNT_KEY,
            )
            continue
        yield from check_logged_latencies(run, latencies_ns)


def check_logged_latencies(run: StudyRun, latencies_ns: Any) -> Iterator[Fault]:
    """Yield latencies of LoadGen's that are not those of its queries (an array, ns)."""
    for key, made_ns in recompute_logged_latencies(latencies_ns).items():
        told_ns = find_positive_number(run, key)
        least_ns = made_ns * (1 - MAX_SHARE_BELOW_RECORD)
        most_ns = made_ns * (1 + MAX_SHARE_ABOVE_RECORD) + MAX_QUERY_OVERHEAD_MS * NS_PER_MS
        if told_ns is None or least_ns <= told_ns <= most_ns:
            continue
        severity = None if told_ns < least_ns else Severity.WARNING  # a busy machine delays LoadGen
        yield run.run.build_fault(
            f"{key} {told_ns:.0f}",
            f"about {made_ns:.0f}, as in {QUERY_RECORD_FILE}",
            key,
            severity=severity,
        )


def recompute_logged_latencies(latencies_ns: Any) -> dict[str, float]:
    """Return the mean and percentiles of a record's latencies (an array, ns, at least one) under
    LoadGen's keys.
    """
    ordered = latencies_ns.copy()
    ordered.sort()
    shares = {
        format_percentile_key(share): float(ordered[int(len(ordered) * float(share) / 100)])
        for _, share in LATENCY_PERCENTILES.values()
    }
    return {MEAN_LATENCY_KEY: float(latencies_ns.mean()), **shares}


@rule("study.records", JudgedStudy, About.FORM, former="study.folders")
def records(study: JudgedStudy) -> Iterator[Fault]:
    """A closed loop has the record of its queries and its telemetry, unless its own record states
    that they were lost.

    Source: docs/reference/studies.md.
    Advice: repeat the command that measured the study after moving the run away.
    """
    for run in iterate_batch_loops(study):
        lost = run.run.record.lost if run.run.record else ()
        for name, there in (
            (QUERY_RECORD_FILE, run.run.queries is not None),
            (TELEMETRY_FILE, run.run.telemetry is not None),
        ):
            if not there:
                severity = Severity.WARNING if any(name in reason for reason in lost) else None
                yield run.build_fault(
                    f"no {name}",
                    f"{name}, which each run writes",
                    file=POINT_FILE,
                    severity=severity,
                )
