"""Check the times of a run's detail log: how long it lasted, and the dates of its clocks."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from compliance.documents.timestamps import (
    MAX_ZONE_DIFFERENCE_H,
    compute_unexplained_gap_h,
    find_date_problem,
    format_utc_day,
    is_from_unset_clock,
    parse_utc_seconds,
)
from compliance.kinds.inference_mllog.documents.run import MllogRun
from compliance.kinds.inference_mllog.rules.figures import DERIVED_RATE_TOLERANCE
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.units import MS_PER_S, NS_PER_S, S_PER_HOUR

MIN_OFFLINE_SPAN_S: Final = 0.01
MAX_OFFLINE_SPAN_S: Final = 0.05
"""Bounds of the wall-clock time of an Offline run without its highest latency: in all 511 published
runs of v5.1 and v6.0 it is at most 0.05 s. The stamps have milliseconds.
"""
MIN_STREAM_SHARE: Final = 0.85
"""MultiStream's latencies add up to 0.992 to 1.000 of the time in published runs."""
MLLOG_TEST_DATE_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
MLLOG_POWER_STAMP_FORMAT: Final = "%m-%d-%Y %H:%M:%S.%f"


class RequiredSpan(NamedTuple):
    """A time in seconds, and its source."""

    seconds: float
    name: str


@rule(
    "inference-mllog.elapsed",
    MllogRun,
    About.SCORE,
    doubt="how long the run was",
    former="later.elapsed",
)
def elapsed(run: MllogRun) -> Iterator[Fault]:
    """A performance run lasts as long as required, and as long as its queries took.

    Source: inference_rules.adoc, Scenarios: 600 seconds; house rule: the actual duration counts,
    not the requested one.
    Advice: use the round's mlperf.conf and repeat the run.
    """
    least = run.find_number("effective_min_duration_ms")
    found = run.find_record("result_validity")
    if not run.performance or not found or least is None:
        return
    lasted_s = float(found.event.time_ms) / MS_PER_S
    spans = [RequiredSpan(least / MS_PER_S, "min_duration")]
    latest, duration = (
        run.find_number("result_max_latency_ns"),
        run.find_number("generated_query_duration"),
    )
    if latest:
        spans.append(RequiredSpan(latest / NS_PER_S, "the highest latency"))
    if duration and run.logged_scenario == "Server":
        spans.append(RequiredSpan(duration / NS_PER_S, "Server's schedule"))
    for span in spans:
        if lasted_s < span.seconds * (1 - DERIVED_RATE_TOLERANCE):
            yield run.build_fault(
                f"results after {lasted_s:.1f} s",
                f"at least {span.seconds:.1f} s, {span.name}",
                "result_validity",
            )
    for key in ("result_min_duration_met", "result_min_queries_met"):
        if run.find_value(key) is False:
            yield run.build_fault(f"{key} false", "true", key)
    if latest and run.logged_scenario == "Offline":
        yield from check_offline_span(run, latest / NS_PER_S)
    if run.logged_scenario == "MultiStream":
        yield from check_stream_span(run)


def check_offline_span(run: MllogRun, latest_s: float) -> Iterator[Fault]:
    """Compare Offline's highest latency with the wall clock: all samples are issued when the run
    begins, and the run ends with the last one. A rate and its latencies that were scaled together
    agree with each other, but not with the clock.
    """
    began, ended = (
        parse_utc_seconds(str(run.find_value(key)), MLLOG_POWER_STAMP_FORMAT)
        for key in ("power_begin", "power_end")
    )
    if began is None or ended is None or is_from_unset_clock(began):
        return
    if not -MIN_OFFLINE_SPAN_S <= ended - began - latest_s <= MAX_OFFLINE_SPAN_S:
        yield run.build_fault(
            f"a highest latency of {latest_s:.3f} s, {ended - began:.3f} s from power_begin to"
            " power_end",
            "equal times",
            "result_max_latency_ns",
            severity=None if run.round.rules.offline_span_known else Severity.WARNING,
        )


def check_stream_span(run: MllogRun) -> Iterator[Fault]:
    """Compare MultiStream's latencies with the wall clock: a query is issued when the one before it
    has ended, so that they add up to the run.
    """
    began, ended = (
        parse_utc_seconds(str(run.find_value(key)), MLLOG_POWER_STAMP_FORMAT)
        for key in ("power_begin", "power_end")
    )
    mean, queries = (
        run.find_number("result_mean_query_latency_ns"),
        run.find_number("result_query_count"),
    )
    if began is None or ended is None or ended <= began or is_from_unset_clock(began):
        return
    if not mean or not queries:
        return
    share = queries * mean / NS_PER_S / (ended - began)
    if not MIN_STREAM_SHARE <= share <= 1 + DERIVED_RATE_TOLERANCE:
        yield run.build_fault(
            f"latencies that add up to {share:.3g} of the time from power_begin to power_end",
            "about all of it",
            "result_mean_query_latency_ns",
            severity=None if run.round.rules.offline_span_known else Severity.WARNING,
        )


@rule("inference-mllog.date", MllogRun, former="later.date")
def date(run: MllogRun) -> Iterator[Fault]:
    """A run was made near the date of its round and not in the future, and all its clocks show the
    same day.

    Source: mlcommons/inference, loadgen/loadgen.cc: the date of the test and the power timestamps
    come from one clock; the round's date of publication.
    Advice: set the machine's clock and repeat the run.
    """
    tested = parse_utc_seconds(str(run.find_value("test_datetime")), MLLOG_TEST_DATE_FORMAT)
    if tested is None:
        return
    if wrong := find_date_problem(tested, run.round.rules.published):
        yield run.build_fault(
            wrong.found,
            wrong.required,
            "test_datetime",
            severity=Severity.WARNING if is_from_unset_clock(tested) else wrong.severity,
        )
    if is_from_unset_clock(tested):
        return  # a clock that is set during a run contradicts the start
    for key in ("power_begin", "power_end"):
        for record in run.list_records(key):
            at, hours_in = (
                parse_utc_seconds(str(record.value), MLLOG_POWER_STAMP_FORMAT),
                float(record.event.time_ms) / MS_PER_S / S_PER_HOUR,
            )
            hours = None
            if at is not None:
                hours = compute_unexplained_gap_h(at, tested)
            if hours and hours - hours_in > MAX_ZONE_DIFFERENCE_H:
                yield run.build_fault(
                    f"{key} {hours:.0f} hours from the date of the test",
                    format_utc_day(tested),
                    record.line,
                )
