"""Check the results of a published round's LoadGen run by recomputing them from its other files."""

import math
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Final

from compliance.kinds.inference_text.documents.entry import TextRun
from compliance.kinds.inference_text.logs.legacy_detail import LegacyRunPhase
from compliance.kinds.inference_text.rules.loadgen_run import (
    has_performance_summary,
    has_readable_detail_log,
)
from compliance.logs.loadgen.summary_keys import LOGGED_PERCENTILES
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.loadgen.loadgen_errors import RAN_OUT_OF_QUERIES
from suite.loadgen.scenario import Scenario

RESULT_TOLERANCE: Final = 0.02
"""Tolerance of a recomputed result: no accepted run exceeds it."""
RATE_ROUNDING_ERROR: Final = 0.0051
"""LoadGen prints rates with two decimals."""
CLOCK_TOLERANCE: Final = 0.01
"""LoadGen itself reports larger clock differences as an error."""
POWER_STAMP_ERROR_S: Final = 0.002
"""POWER_BEGIN and POWER_END are printed to the millisecond."""
MONTH_FIRST_STAMP_FORMAT: Final = "%m-%d-%Y %H:%M:%S.%f"
CLOCK_CHANGE_S: Final = 3600.0
"""Daylight saving time moves clocks by an hour twice a year."""


def is_far_from_expected(
    found: float, expected: float, relative: float = RESULT_TOLERANCE, absolute: float = 0.0
) -> bool:
    """Return whether a number is too far from its expected value."""
    return not math.isclose(found, expected, rel_tol=relative, abs_tol=absolute)


@rule(
    "inference-text.percentiles",
    TextRun,
    About.SCORE,
    doubt="the latencies",
    former="served.percentiles",
)
def percentiles(run: TextRun) -> Iterator[Fault]:
    """All latencies are present, percentiles increase from the lowest to the highest, and the mean
    is consistent with them.

    Source: mlcommons/inference, loadgen/loadgen.cc, ProcessLatencies: all come from one sorted
    list; no accepted run differs.
    Advice: copy LoadGen's summary again, whole; otherwise repeat the run with the round's LoadGen.
    """
    if not has_performance_summary(run):
        return
    if has_query_latencies(run):
        prefixes = {"": " latency", "query ": " latency", "interval ": ""}
    else:
        prefixes = {"": " latency"}
    for prefix, ending in prefixes.items():
        names = [f"{prefix}{share} percentile{ending}" for share in LOGGED_PERCENTILES]
        yield from check_ascending_values(
            run, names if prefix else ["Min latency", *names, "Max latency"]
        )
    yield from check_mean_latency(run)


def has_query_latencies(run: TextRun) -> bool:
    """Return whether a summary has MultiStream's lists of intervals and latencies per query; the
    earliest revisions of LoadGen wrote none.
    """
    return run.scenario is Scenario.MULTI_STREAM and any(
        name.startswith(("interval ", "query ")) for name in run.summary.values
    )


def has_early_server_end(run: TextRun) -> bool:
    """Return whether Server ended before all queries were sent, which the earliest revisions of
    LoadGen allowed.
    """
    return (
        run.scenario is Scenario.SERVER
        and run.phase is not None
        and run.phase.natural_end is not None
    )


def check_ascending_values(run: TextRun, names: list[str]) -> Iterator[Fault]:
    """Compare each value with the previous one."""
    for name in names:
        value = run.summary.find_number(name)
        if value is None or not 0 <= value < math.inf:
            found = run.summary.values.get(name)
            yield run.build_summary_fault(
                name, f"{name}: {found.text if found else 'missing'}", "a number"
            )
    values = [
        (name, value) for name in names if (value := run.summary.find_number(name)) is not None
    ]
    for (lower, low), (name, high) in pairwise(values):
        if high < low:
            yield run.build_summary_fault(
                name, f"{name} {high:.0f}", f"at least {low:.0f}, the {lower}"
            )


def check_mean_latency(run: TextRun) -> Iterator[Fault]:
    """Check the mean against bounds on both sides: half of the latencies are at most the median,
    and so on.
    """
    value, low, high = (
        run.summary.find_number(f"{name} latency") for name in ("Mean", "Min", "Max")
    )
    if value is None or low is None or high is None:
        found = run.summary.values.get("Mean latency")
        yield run.build_summary_fault(
            "Mean latency", f"Mean latency: {found.text if found else 'missing'}", "a number"
        )
        return
    if not low <= value <= high:
        yield run.build_summary_fault(
            "Mean latency", f"Mean latency {value:.0f}", f"between {low:.0f} and {high:.0f}"
        )
        return
    places = [
        run.summary.find_number(f"{share} percentile latency") for share in LOGGED_PERCENTILES
    ]
    known = [place for place in places if place is not None]
    made = run.generated
    if (
        len(known) < len(LOGGED_PERCENTILES)
        or made is None
        or made.queries * made.samples_per_query < 1000
    ):
        return
    shares = [float(share) / 100 for share in LOGGED_PERCENTILES]
    weights = [upper - lower for lower, upper in pairwise([0.0, *shares, 1.0])]
    least = sum(weight * each for weight, each in zip(weights, [low, *known], strict=True))
    greatest = sum(weight * each for weight, each in zip(weights, [*known, high], strict=True))
    slack = RESULT_TOLERANCE * greatest + (high - low) / 1000
    if not least - slack <= value <= greatest + slack:
        yield run.build_summary_fault(
            "Mean latency",
            f"Mean latency {value:.0f}",
            f"{least:.0f} to {greatest:.0f}, as the percentiles imply",
        )


@rule(
    "inference-text.single_stream",
    TextRun,
    About.SCORE,
    doubt="the figure",
    former="served.single_stream",
)
def single_stream(run: TextRun) -> Iterator[Fault]:
    """SingleStream's result is the 90th percentile, and its rates follow from the mean latency and
    the duration.

    Source: mlcommons/inference, loadgen/loadgen.cc, PerformanceSummary::Log; no accepted run
    differs by 2 %.
    Advice: put summary and detail log of one run here; otherwise repeat the run with the round's
    LoadGen.
    """
    if not has_performance_summary(run) or run.scenario is not Scenario.SINGLE_STREAM:
        return
    result, place = (
        run.summary.find_number(name)
        for name in ("90th percentile latency", "90.00 percentile latency")
    )
    if result is not None and place is not None and result != place:
        yield run.build_summary_fault(
            "90th percentile latency", f"{result:.0f}", f"{place:.0f}, the 90.00 percentile latency"
        )
    average, without, overhead = (
        run.summary.find_number(name)
        for name in ("Mean latency", "QPS w/o loadgen overhead", "QPS w/ loadgen overhead")
    )
    if without is None or overhead is None:
        yield run.build_summary_fault(
            "", "no QPS with and without LoadGen's overhead", "both rates, as LoadGen writes them"
        )
        return
    if average and is_far_from_expected(without, 1e9 / average, 1e-3, RATE_ROUNDING_ERROR):
        yield run.build_summary_fault(
            "QPS w/o loadgen overhead",
            f"{without:g} queries/s",
            f"{1e9 / average:.2f}, one per mean latency",
        )
    if overhead > without * (1 + RESULT_TOLERANCE) + 2 * RATE_ROUNDING_ERROR:
        yield run.build_summary_fault(
            "QPS w/ loadgen overhead",
            f"{overhead:g} queries/s",
            f"at most {without:g}, the rate without overhead",
        )
    yield from check_issued_queries(run, overhead)


def check_issued_queries(run: TextRun, rate: float) -> Iterator[Fault]:
    """Estimate how many queries were sent, from the rate and the duration of the run."""
    taken, made = compute_power_span_s(run), run.generated
    if taken is None or made is None or run.rule is None:
        return
    most, least = (
        (rate + RATE_ROUNDING_ERROR) * (taken + POWER_STAMP_ERROR_S) * (1 + CLOCK_TOLERANCE) + 2,
        (rate - RATE_ROUNDING_ERROR)
        * max(taken - compute_max_latency_s(run), 0)
        * (1 - CLOCK_TOLERANCE),
    )
    if most < run.rule.min_queries:
        yield run.build_summary_fault(
            "QPS w/ loadgen overhead",
            f"about {most:.0f} queries in {taken:.3f} s",
            f"{run.rule.min_queries}",
        )
    if least > made.queries:
        yield run.build_summary_fault(
            "QPS w/ loadgen overhead",
            f"about {least:.0f} queries in {taken:.3f} s",
            f"at most {made.queries}, the generated number",
        )
    ran_out = any(RAN_OUT_OF_QUERIES.is_in(remark.text) for remark in run.detail.errors)
    if ran_out and most < made.queries:
        yield run.build_summary_fault(
            "QPS w/ loadgen overhead",
            f"about {most:.0f} queries in {taken:.3f} s",
            f"{made.queries}, since all were sent",
        )


def compute_max_latency_s(run: TextRun) -> float:
    """Return the highest latency in seconds."""
    return (run.summary.find_number("Max latency") or 0.0) / 1e9


@rule(
    "inference-text.multi_stream",
    TextRun,
    About.SCORE,
    doubt="the figure",
    former="served.multi_stream",
)
def multi_stream(run: TextRun) -> Iterator[Fault]:
    """MultiStream's result is the setting samples_per_query, and its intervals and latency bound
    match the settings.

    Source: mlcommons/inference, loadgen/loadgen.cc, PerformanceSummary::Log.
    Advice: put summary and detail log of one run here; otherwise repeat the run with the round's
    LoadGen.
    """
    if not has_performance_summary(run) or run.scenario is not Scenario.MULTI_STREAM:
        return
    pairs = [("Samples per query", "samples_per_query")]
    if has_query_latencies(run):
        pairs += [("interval qps", "target_qps"), ("query target_ns", "target_latency_ns")]
    for name, setting in pairs:
        found, wanted = run.summary.find_number(name), run.find_number(f"effective_{setting}")
        if found is None or wanted is None or is_far_from_expected(found, wanted, 1e-5):
            yield run.build_summary_fault(
                name, f"{name} {found}", f"{wanted}, the setting {setting}"
            )
    rate, interval = run.summary.find_number("interval qps"), run.summary.find_number("interval ms")
    if rate and interval is not None and is_far_from_expected(interval, 1e3 / rate, 1e-4):
        yield run.build_summary_fault(
            "interval ms",
            f"{interval:g} ms between queries",
            f"{1e3 / rate:g}, at {rate:g} per second",
        )
    for share in LOGGED_PERCENTILES:
        queries, samples = (
            run.summary.find_number(f"{prefix}{share} percentile latency")
            for prefix in ("query ", "")
        )
        if (
            queries is not None
            and samples is not None
            and queries < samples * (1 - RESULT_TOLERANCE)
        ):
            yield run.build_summary_fault(
                f"query {share} percentile latency",
                f"{queries:.0f} ns per query",
                f"at least the {samples:.0f} ns per sample",
            )


@rule("inference-text.server", TextRun, About.SCORE, doubt="the figure", former="served.server")
def server(run: TextRun) -> Iterator[Fault]:
    """Server's result is the number of generated queries divided by their scheduled duration, and
    no more were completed per second.

    Source: mlcommons/inference, loadgen/loadgen.cc, PerformanceSummary::Log; no accepted run
    differs by 2 %.
    Advice: put summary and detail log of one run here; otherwise repeat the run with the round's
    LoadGen.
    """
    made = run.generated
    if not has_performance_summary(run) or run.scenario is not Scenario.SERVER or made is None:
        return
    scheduled, completed = (
        run.summary.find_number(f"{name} samples per second") for name in ("Scheduled", "Completed")
    )
    if scheduled is None or completed is None:
        yield run.build_summary_fault(
            "", "no scheduled and completed rate", "both rates, as LoadGen writes them"
        )
        return
    if made.duration_ns > 0:
        rate = made.queries * made.samples_per_query / (made.duration_ns / 1e9)
    else:
        rate = math.inf
    if run.closed and not has_early_server_end(run):
        relative = min(RESULT_TOLERANCE, 1e-4 + 20 / max(made.queries, 1))
    else:
        relative = RESULT_TOLERANCE
    if is_far_from_expected(scheduled, rate, relative, RATE_ROUNDING_ERROR):
        yield run.build_summary_fault(
            "Scheduled samples per second",
            f"{scheduled:g} queries/s",
            f"{rate:.2f}: {made.queries} in {made.duration_ns / 1e9:g} s",
        )
    if completed > scheduled * (1 + 1e-3) + 2 * RATE_ROUNDING_ERROR:
        yield run.build_summary_fault(
            "Completed samples per second",
            f"{completed:g} queries/s",
            f"at most {scheduled:g}, the scheduled rate",
        )
    taken = compute_power_span_s(run)
    if (
        taken
        and not has_early_server_end(run)
        and completed < (made.queries - 1) / taken * (1 - CLOCK_TOLERANCE) - RATE_ROUNDING_ERROR
    ):
        yield run.build_summary_fault(
            "Completed samples per second",
            f"{completed:g} queries/s",
            f"{(made.queries - 1) / taken:.2f}: {made.queries} in {taken:g} s",
        )


@rule("inference-text.offline", TextRun, About.SCORE, doubt="the figure", former="served.offline")
def offline(run: TextRun) -> Iterator[Fault]:
    """Offline's result is the number of samples divided by the highest latency.

    Source: mlcommons/inference, loadgen/loadgen.cc, PerformanceSummary::Log; no accepted run
    differs by 2 %.
    Advice: put summary and detail log of one run here; otherwise repeat the run with the round's
    LoadGen.
    """
    made, result, latest = (
        run.generated,
        run.summary.find_number("Samples per second"),
        run.summary.find_number("Max latency"),
    )
    if (
        not has_performance_summary(run)
        or run.scenario is not Scenario.OFFLINE
        or made is None
        or result is None
        or not latest
    ):
        return
    rate = made.queries * made.samples_per_query / (latest / 1e9)
    if is_far_from_expected(result, rate, 1e-4 if run.closed else RESULT_TOLERANCE):
        yield run.build_summary_fault(
            "Samples per second",
            f"{result:g} samples/s",
            f"{rate:.6g}: {made.samples_per_query} in {latest / 1e9:g} s",
        )


@rule(
    "inference-text.duration",
    TextRun,
    About.SCORE,
    doubt="how long the run was",
    former="served.duration",
)
def duration(run: TextRun) -> Iterator[Fault]:
    """The run lasted as long as the round requires according to all of its clocks, and the clocks
    agree.

    Source: inference_rules.adoc v0.5, Scenarios: 60 seconds; mlcommons/inference,
    loadgen/loadgen.cc, MinDurationMet and POWER_BEGIN, POWER_END.
    Advice: use the round's mlperf.conf and repeat the run with a clock that nobody sets.
    """
    made, phase = run.generated, run.phase
    if not run.performance or made is None or phase is None:
        return
    least_s = run.round.minimums.min_duration_ms / 1e3
    logged_s = None
    if phase.counters:
        logged_s = (phase.counters[-1][1] - made.time_ns) / 1e9
    latest = None
    if run.scenario is Scenario.OFFLINE:
        latest = run.summary.find_number("Max latency")
    latest_s = None
    if latest:
        latest_s = latest / 1e9
    for how, seconds in (
        ("by the log's timestamps", logged_s),
        ("from POWER_BEGIN to POWER_END", compute_power_span_s(run)),
        ("by the highest latency", latest_s),
    ):
        if seconds is not None and seconds < least_s * (1 - CLOCK_TOLERANCE):
            yield run.build_fault(f"{seconds:.3f} s {how}", f"{least_s:g} s", made.line)
    if run.scenario is Scenario.SERVER and made.duration_ns < least_s * 1e9:
        yield run.build_fault(
            f"queries scheduled for {made.duration_ns / 1e9:g} s", f"{least_s:g} s", made.line
        )
    yield from check_power_clock(run, phase, logged_s, latest_s)


def check_power_clock(
    run: TextRun, phase: LegacyRunPhase, logged_s: float | None, latest_s: float | None
) -> Iterator[Fault]:
    """Compare the wall-clock span with the log's timestamps, the schedule and the highest
    latency.
    """
    taken, made = compute_power_span_s(run), run.generated
    if phase.power:
        line = phase.power[-1][3]
    else:
        line = phase.line
    if phase.power and taken is None:
        yield run.build_fault(
            "unreadable POWER_BEGIN and POWER_END",
            "month-day-year hours:minutes:seconds.milliseconds",
            line,
        )
    if taken is None or made is None:
        return
    if logged_s is not None and logged_s < taken * (1 - CLOCK_TOLERANCE) - 1:
        yield run.build_fault(
            f"{taken:.3f} s from POWER_BEGIN to POWER_END",
            f"at most {logged_s:.3f} s, by the log's timestamps",
            line,
        )
    if latest_s is not None and is_far_from_expected(
        taken, latest_s, CLOCK_TOLERANCE, 2 * POWER_STAMP_ERROR_S
    ):
        yield run.build_fault(
            f"{taken:.3f} s from POWER_BEGIN to POWER_END",
            f"{latest_s:.3f} s, the highest latency",
            line,
        )
    if (
        run.scenario in (Scenario.SERVER, Scenario.MULTI_STREAM)
        and not has_early_server_end(run)
        and taken < compute_scheduled_s(run) * (1 - CLOCK_TOLERANCE) - POWER_STAMP_ERROR_S
    ):
        yield run.build_fault(
            f"{taken:.3f} s from POWER_BEGIN to POWER_END",
            f"{compute_scheduled_s(run):.3f} s, the scheduled duration",
            line,
        )


def compute_scheduled_s(run: TextRun) -> float:
    """Return the scheduled duration of the queries in seconds: all of Server's, or MultiStream's
    requested number.
    """
    made, rate = run.generated, run.find_number("effective_target_qps")
    if made is None:
        return 0.0
    if run.scenario is Scenario.SERVER or not rate:
        return made.duration_ns / 1e9
    return min(made.queries, run.find_number("effective_min_query_count") or 0) / rate


def compute_power_span_s(run: TextRun) -> float | None:
    """Return the seconds from POWER_BEGIN to POWER_END of a performance run, corrected for a clock
    change of an hour; None if they are unreadable.
    """
    phase, logged = run.phase, 0.0
    if (
        not run.performance
        or phase is None
        or len(phase.power) < 2
        or not has_readable_detail_log(run)
    ):
        return None
    try:
        begin, end = (
            datetime.strptime(text, MONTH_FIRST_STAMP_FORMAT) for _, _, text, _ in phase.power[-2:]
        )
    except ValueError:
        return None
    seconds = (end - begin).total_seconds()
    if phase.counters and phase.generated:
        logged = (phase.counters[-1][1] - phase.generated[-1].time_ns) / 1e9
    for change in (CLOCK_CHANGE_S, -CLOCK_CHANGE_S):
        if abs(seconds + change - logged) < min(60.0, abs(seconds - logged)):
            return seconds + change
    return seconds
