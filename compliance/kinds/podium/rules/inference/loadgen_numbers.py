"""Check LoadGen's numbers by recomputing them: duration, counts and rates must be consistent."""

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from typing import Final

from compliance.documents.timestamps import MAX_ZONE_DIFFERENCE_H, parse_utc_seconds
from compliance.kinds.podium.documents.inference import LoadGenRun, parse_power_time
from compliance.kinds.podium.documents.training import is_logged_count
from compliance.kinds.podium.recorded_times import (
    WALL_CLOCK_DRIFT,
    compute_clock_error_ms,
    compute_recorded_span_ms,
)
from compliance.kinds.podium.rules.inference.loadgen_settings import compute_generated_samples
from compliance.kinds.podium.rules.inference.loadgen_summary import (
    LOGGED_NUMBER_TOLERANCE,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE
from suite.loadgen.scenario import Scenario
from suite.units import MS_PER_S, NS_PER_MS, NS_PER_S, S_PER_HOUR

COUNTED_RATE_TOLERANCE: Final = 0.02
"""Relative: difference between a rate and its counts; no accepted entry of inference v0.5 exceeds
it.
"""
MAX_LAST_GAP: Final = 21.0
"""Mean gaps behind the last query of a Poisson schedule, which its duration has and its rate has
not: an exponential draw is above it once in a billion times.
"""
WALL_STAMP_ERROR_MS: Final = 5.0
"""LoadGen's wall-clock timestamps have whole milliseconds (loadgen/utils.cc); in some thirty real
runs they were at most 3.2 ms too close together.
"""
MAX_STAMP_DELAY_MS: Final = 50.0
"""Time that a logging thread may wait for a core before and after the run; 1.6 ms were measured
with all cores busy.
"""
MAX_POISSON_SIGMAS: Final = 6.0
"""Standard deviations by which the rate of a Poisson schedule may differ from its target."""
MAX_RESULTS_TIME_SHARE: Final = 0.05
MAX_RESULTS_TIME_MS: Final = 500.0
"""Time in which LoadGen may compute its results: a share of the run, and the time that threads may
wait for a core ...
"""
MAX_RESULTS_MS_PER_SAMPLE: Final = 0.05
"""... and for each sample, which it sorts and logs: 8 us were measured with all cores busy, in a
run of 100,969 queries of 10 us.
"""
TEST_DATETIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
TIME_ZONE_STEP_MS: Final = 900_000.0
"""Time zones differ by quarters of an hour."""


@rule("loadgen.duration", LoadGenRun, About.SCORE)
def duration(run: LoadGenRun) -> Iterator[Fault]:
    """A performance run lasts at least the scenario's duration, by the detail log's clock and by
    its own counts.

    Source: inference_rules.adoc v0.5, Scenarios: minimum duration; the scenario's min_duration_ms.
    Advice: make the run longer: raise the expected rate or lower the expected latency, so that
    LoadGen prepares more queries.
    """
    if not run.performance or run.rule is None:
        return
    wanted = run.rule.min_duration_ms
    if run.span_ms is not None and run.span_ms < wanted:
        yield run.build_fault(
            f"{run.span_ms:.0f} ms between queries and result",
            f"at least {wanted} ms",
            "result_validity",
        )
    claimed = compute_claimed_ms(run)
    if (
        run.wall_ms is not None
        and run.wall_ms < wanted * (1 - WALL_CLOCK_DRIFT) - WALL_STAMP_ERROR_MS
    ):
        yield run.build_fault(
            f"{run.wall_ms:.0f} ms from power_begin to power_end",
            f"at least {wanted} ms",
            "power_end",
        )
    if (
        claimed is not None
        and claimed + compute_last_query_ms(run)[1] < wanted * (1 - LOGGED_NUMBER_TOLERANCE) - 1
    ):
        yield run.build_fault(
            f"{claimed:.0f} ms, as queries and rate imply",
            f"at least {wanted} ms",
            "result_query_count",
        )


def compute_claimed_ms(run: LoadGenRun) -> float | None:
    """Compute the duration that counts and rates imply; None if the log lacks them."""
    queries = run.find_number("result_query_count")
    if run.scenario is Scenario.OFFLINE:
        latency = run.find_number("result_max_latency_ns")
        return latency / 1e6 if latency else None
    if run.scenario is Scenario.MULTI_STREAM:
        return None  # LoadGen logs no rate here, and needs its own time between two queries
    if run.scenario is Scenario.SERVER:  # results.cc: one interval fewer than queries
        rate = run.find_number("result_completed_samples_per_sec")
        return 1000 * (queries - 1) / rate if queries and rate else None
    rate = run.find_number(
        "result_qps_with_loadgen_overhead"
    )  # results.cc: one query fewer, up to the time at which the last one was issued
    return 1000 * (queries - 1) / rate if queries and rate else None


def compute_last_query_ms(run: LoadGenRun) -> tuple[float, float]:
    """Return the minimum and maximum time that a run takes beyond the time implied by its rate:
    SingleStream's rate ends when the last query begins, and Server's when that query is answered;
    an earlier one that another worker has, or that has more tokens, may be answered later.
    """
    found = run.find_numbers("result_min_latency_ns", "result_max_latency_ns")
    if found and run.scenario is Scenario.SINGLE_STREAM:
        return found[0] / NS_PER_MS, found[1] / NS_PER_MS
    if found and run.scenario is Scenario.SERVER:
        return 0.0, found[1] / NS_PER_MS
    return 0.0, 0.0


@rule("loadgen.queries", LoadGenRun, About.RULES)
def queries(run: LoadGenRun) -> Iterator[Fault]:
    """A performance run issues at least the scenario's queries (Offline: samples) and no more than
    were generated. An accuracy run answers all of them.

    Source: inference_rules.adoc v0.5, Scenarios: minimum queries; the scenario's min_queries.
    Advice: raise loadgen.min_queries, or make the run longer.
    """
    found = run.find_numbers(
        "result_query_count",
        "generated_query_count",
        "generated_samples_per_query",
        "effective_samples_per_query",
    )
    if not run.performance:
        yield from check_answer_count(run)
    if not run.performance or run.rule is None or found is None:
        return
    issued, generated, per_query, effective = found
    counted = issued * per_query if run.scenario is Scenario.OFFLINE else issued
    if counted < run.rule.min_queries:
        yield run.build_fault(
            f"{counted:.0f}", f"at least {run.rule.min_queries}", "result_query_count"
        )
    if issued > generated or (
        run.scenario in (Scenario.SERVER, Scenario.OFFLINE) and issued != generated
    ):
        required = "as many as were generated; in the stream scenarios, at most as many"
        yield run.build_fault(
            f"{issued:.0f} queries of {generated:.0f} generated", required, "result_query_count"
        )
    wanted = compute_generated_samples(run, effective)
    if per_query != wanted:
        yield run.build_fault(
            f"{per_query:.0f} samples per query",
            f"{wanted:.0f}, as in the settings",
            "generated_samples_per_query",
        )


def check_answer_count(run: LoadGenRun) -> Iterator[Fault]:
    """Check the answers of an accuracy run against the issued samples, set by set."""
    counts, sizes = (
        run.list_records(key) for key in ("generated_query_count", "generated_samples_per_query")
    )
    pairs = [(count.value, size.value) for count, size in zip(counts, sizes, strict=False)]
    issued = sum(
        count * size for count, size in pairs if is_logged_count(count) and is_logged_count(size)
    )
    if pairs and issued != len(run.answers.samples):
        yield run.build_fault(
            f"{issued} samples issued",
            f"{len(run.answers.samples)}, the number of answers",
            "generated_query_count",
        )


@rule("loadgen.rate", LoadGenRun, About.SCORE)
def rate(run: LoadGenRun) -> Iterator[Fault]:
    """Rates follow from counts and times: Offline samples divided by latency, Server queries
    divided by schedule, SingleStream 1 divided by the mean.

    Source: mlcommons/inference, loadgen/results.cc: Offline's rate is that quotient, to six digits;
    the others are within 2 %.
    Advice: copy mlperf_log_detail.txt again from the run; if rate and counts disagree there too,
    serve again and report them to LoadGen.
    """
    if not run.performance:
        return
    rates = run.find_numbers("result_completed_samples_per_sec", "result_scheduled_samples_per_sec")
    counts = run.find_numbers(
        "result_query_count", "effective_target_qps", "result_scheduled_samples_per_sec"
    )
    if (
        run.scenario is Scenario.SERVER
        and counts
        and abs(counts[2] / max(counts[1], 1e-9) - 1)
        > MAX_POISSON_SIGMAS / math.sqrt(max(counts[0], 1))
    ):
        yield run.build_fault(
            f"{counts[2]:g} scheduled",
            f"about {counts[1]:g}, the target",
            "result_scheduled_samples_per_sec",
        )
    if (
        run.scenario is Scenario.SERVER
        and rates
        and rates[0] > rates[1] * (1 + LOGGED_NUMBER_TOLERANCE)
    ):
        yield run.build_fault(
            f"{rates[0]:g} completed",
            f"at most {rates[1]:g}, the scheduled rate",
            "result_completed_samples_per_sec",
        )
    for key, expected, slack in iterate_expected_rates(run):
        found = run.find_number(key)
        if found is not None and not math.isclose(found, expected, rel_tol=slack):
            yield run.build_fault(
                f"{key} {found:g}", f"{expected:g}, as counts and times imply", key
            )


def iterate_expected_rates(run: LoadGenRun) -> Iterator[tuple[str, float, float]]:
    """Yield the rates that counts and times imply, and their tolerances."""
    if run.scenario is Scenario.OFFLINE and (
        found := run.find_numbers(
            "result_query_count", "generated_samples_per_query", "result_max_latency_ns"
        )
    ):
        yield (
            "result_samples_per_second",
            found[0] * found[1] * NS_PER_S / max(found[2], 1),
            LOGGED_NUMBER_TOLERANCE,
        )
    if run.scenario is Scenario.SERVER and (
        found := run.find_numbers("generated_query_count", "generated_query_duration")
    ):
        yield (
            "result_scheduled_samples_per_sec",
            found[0] * NS_PER_S / max(found[1], 1),
            max(COUNTED_RATE_TOLERANCE, MAX_LAST_GAP / max(found[0], 1)),
        )
    if run.scenario is Scenario.SINGLE_STREAM and (
        found := run.find_numbers("result_mean_latency_ns")
    ):
        yield (
            "result_qps_without_loadgen_overhead",
            NS_PER_S / max(found[0], 1),
            COUNTED_RATE_TOLERANCE,
        )


@rule("loadgen.span", LoadGenRun, About.SCORE)
def span(run: LoadGenRun) -> Iterator[Fault]:
    """The duration implied by counts and rates matches LoadGen's own timestamps around the run, and
    is no shorter than the time from the first to the last stamp in queries.npy.

    Source: mlcommons/inference, loadgen/loadgen.cc: power_end is power_begin plus the time up to
    the last completion, and rates are divided by times of the same clock: a thread that waits moves
    both. LoadGen's clock starts before the first stamp in queries.npy and ends behind the last one.
    Advice: keep the files of one run together; a busy machine does not
    explain this. Repeat the run if one of them is lost.
    """
    yield from check_recorded_span(run)
    claimed, taken, wall, (least, most) = (
        compute_claimed_ms(run),
        run.span_ms,
        run.wall_ms,
        compute_last_query_ms(run),
    )
    if not run.performance or claimed is None or taken is None:
        return
    if claimed + least > taken * (1 + LOGGED_NUMBER_TOLERANCE) + 1:
        yield run.build_fault(
            f"counts and rates imply {claimed:.0f} ms",
            f"at most {taken:.0f} ms, by the log's clock",
            "result_query_count",
        )
    if (
        wall is not None
        and not wall * (1 - WALL_CLOCK_DRIFT) - MAX_STAMP_DELAY_MS - WALL_STAMP_ERROR_MS - most
        <= claimed
        <= wall * (1 + WALL_CLOCK_DRIFT) + WALL_STAMP_ERROR_MS - least
    ):
        yield run.build_fault(
            f"counts and rates imply {claimed:.0f} ms",
            f"{wall:.0f} ms, from power_begin to power_end",
            "power_end",
        )


def check_recorded_span(run: LoadGenRun) -> Iterator[Fault]:
    """Yield a time between LoadGen's stamps that is shorter than that between podium's."""
    recorded_ms, wall = compute_recorded_span_ms(run), run.wall_ms
    if not run.performance or recorded_ms is None or wall is None:
        return
    if wall < recorded_ms - WALL_STAMP_ERROR_MS - compute_clock_error_ms(run, recorded_ms):
        yield run.build_fault(
            f"{wall:.0f} ms from power_begin to power_end",
            f"at least {recorded_ms:.0f} ms, from the first to the last time in"
            f" {QUERY_RECORD_FILE}",
            "power_end",
        )


@rule("loadgen.clocks", LoadGenRun, About.SCORE)
def clocks(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen's relative and wall-clock times agree on the time between the queries and the result,
    and on the time between the start of the test and of the run.

    Between the two, LoadGen prepares its first query and computes its results. If queries.npy shows
    how long the queries took, more time than that is a warning: LoadGen's thread waited.

    Source: mlcommons/inference, loadgen: generated_query_count, power_begin, power_end,
    result_validity and test_datetime of one log; in 177 published runs of v1.0 to v6.0, computing
    the results took at most 2.5 % of the run, and the wall-clock times differ only by truncation to
    whole seconds.
    Advice: keep the files of one run together. A process that was stopped
    before the first query or behind the last answer has such times, too, and queries.npy shows it.
    """
    wall, taken = run.wall_ms, run.span_ms
    samples = (run.find_number("result_query_count") or 0) * (
        run.find_number("generated_samples_per_query") or 1
    )
    computing_ms = MAX_RESULTS_TIME_MS + samples * MAX_RESULTS_MS_PER_SAMPLE
    if (
        run.performance
        and wall is not None
        and taken is not None
        and taken > wall * (1 + MAX_RESULTS_TIME_SHARE) + computing_ms
    ):
        fault = run.build_fault(
            f"{wall:.0f} ms from power_begin to power_end",
            f"about {taken:.0f} ms, by the log's clock",
            "power_end",
        )
        known = compute_recorded_span_ms(run) is not None
        yield replace(fault, severity=Severity.WARNING if known else None)
    test_datetime = run.find_value("test_datetime")
    if (
        test_datetime is not None
        and parse_utc_seconds(get_text_or_none(test_datetime), TEST_DATETIME_FORMAT) is None
    ):
        yield run.build_fault(
            f"test_datetime {str(test_datetime)[:60]!r}",
            "year-month-dayThours:minutes:secondsZ",
            "test_datetime",
        )
    yield from check_wall_clock_begin(run, test_datetime)


def check_wall_clock_begin(run: LoadGenRun, test_datetime: object) -> Iterator[Fault]:
    """Yield a power_begin whose distance from the test's start differs from that in the log's
    clock.
    """
    begin, tested, queries = (
        parse_power_time(run.find_value("power_begin")),
        parse_utc_seconds(get_text_or_none(test_datetime), TEST_DATETIME_FORMAT),
        run.find_record("generated_query_count"),
    )
    if begin is None or tested is None or not queries:
        return
    between_ms = (begin.replace(tzinfo=UTC).timestamp() - tested) * MS_PER_S
    apart_ms = between_ms - queries.event.time_ms
    zone_error_ms = (apart_ms + WALL_STAMP_ERROR_MS) % TIME_ZONE_STEP_MS
    if (
        zone_error_ms > MS_PER_S + MAX_RESULTS_TIME_MS + WALL_STAMP_ERROR_MS
        or abs(apart_ms) > MAX_ZONE_DIFFERENCE_H * S_PER_HOUR * MS_PER_S
    ):
        found = (
            f"queries {queries.event.time_ms / MS_PER_S:.3f} s after the start of the"
            f" log at {run.find_value('test_datetime')}"
        )
        yield run.build_fault(
            found,
            f"a matching power_begin in some time zone, not {run.find_value('power_begin')}",
            "power_begin",
        )


def get_text_or_none(value: object) -> str | None:
    """Return a text; None for anything else."""
    return value if isinstance(value, str) else None


@rule("loadgen.last", LoadGenRun, About.SCORE)
def last(run: LoadGenRun) -> Iterator[Fault]:
    """The latency of Server's last query, implied by scheduled and completed rate, is between the
    smallest and largest latency.

    Source: mlcommons/inference, loadgen/results.cc: one rate ends where the last query was due, the
    other where it was answered; 483 of 483 published runs comply.
    Advice: copy summary and detail log of this run again; if they still disagree, serve again.
    """
    found = run.find_numbers(
        "result_query_count", "result_completed_samples_per_sec", "result_scheduled_samples_per_sec"
    )
    bounds = run.find_numbers("result_min_latency_ns", "result_max_latency_ns")
    if (
        not run.performance
        or run.scenario is not Scenario.SERVER
        or found is None
        or bounds is None
        or min(found) <= 0
    ):
        return
    ended, due = ((found[0] - 1) * NS_PER_S / rate for rate in found[1:])
    slack = LOGGED_NUMBER_TOLERANCE * ended + NS_PER_MS
    if not bounds[0] - slack <= ended - due <= bounds[1] + slack:
        found_text = f"a last query of {(ended - due) / NS_PER_MS:.3f} ms, as the rates imply"
        yield run.build_fault(
            found_text,
            f"from {bounds[0] / NS_PER_MS:.3f} to {bounds[1] / NS_PER_MS:.3f} ms",
            "result_completed_samples_per_sec",
        )


@rule("loadgen.bound", LoadGenRun, About.RULES)
def bound(run: LoadGenRun) -> Iterator[Fault]:
    """Server meets its latency bound at its percentile, and the number of late queries is
    consistent with the percentiles.

    Source: inference_rules.adoc v0.5, Scenarios, table: latency bound; the scenario's bound_ns and
    percentile.
    Advice: lower server.target_qps.
    """
    if not run.performance or run.rule is None or run.rule.bound_ns is None:
        return
    key = f"result_{run.rule.percentile:.2f}_percentile_latency_ns"
    found = run.find_number(key)
    if found is not None and found > run.rule.bound_ns:
        yield run.build_fault(f"{found:.0f} ns", f"at most {run.rule.bound_ns} ns", key)
    over, most = (
        run.find_number("result_overlatency_query_count"),
        run.find_number("result_max_latency_ns"),
    )
    if over is not None and most is not None and (over > 0) != (most > run.rule.bound_ns):
        found_text = f"{over:.0f} late queries, largest latency {most:.0f} ns"
        yield run.build_fault(
            found_text,
            f"late queries only above {run.rule.bound_ns} ns",
            "result_overlatency_query_count",
        )
