"""Check the requested durations of a published round's LoadGen run, and its generated queries."""

import math
from collections.abc import Iterator
from typing import Final

from compliance.kinds.inference_text.documents.entry import TextRun
from compliance.kinds.inference_text.rules.loadgen_run import has_readable_detail_log
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.loadgen.scenario import Scenario

OFFLINE_SAMPLES_FACTOR: Final = 1.1
"""Offline's query contains this multiple of the samples that its rate and duration require."""
ARRIVAL_SPREAD_FACTOR: Final = 1.05
"""Server's arrivals are random: the maximum deviation of a count from its mean is six standard
deviations at 14,400 queries.
"""


@rule(
    "inference-text.minimums",
    TextRun,
    About.RULES,
    doubt="whether the run was as long as the round requires",
    former="served.minimums",
)
def minimums(run: TextRun) -> Iterator[Fault]:
    """LoadGen's requested duration and number of queries are at least the round's. Smaller values
    are accepted if the log shows that the run was long enough.

    Source: inference_rules.adoc v0.5, Scenarios and Number of queries; mlperf.conf of the round.
    Advice: use the round's mlperf.conf, set no smaller minimum in user.conf, and repeat the run.
    """
    if (
        not run.performance
        or run.rule is None
        or run.scenario is None
        or not has_readable_detail_log(run)
    ):
        return
    duration, least = (
        run.find_number("effective_min_duration_ms"),
        run.round.minimums.min_duration_ms,
    )
    if duration is None or duration < least:
        found = "missing"
        if duration is not None:
            found = f"{duration:g}"
        excuse = None
        if duration is not None and is_long_by_query_count(run, duration):
            excuse = Severity.WARNING
        yield run.build_fault(
            f"min_duration {found} ms", f"{least} ms", "effective_min_duration_ms", severity=excuse
        )
    queries = run.find_number("effective_min_query_count")
    if queries is None or queries < run.rule.min_queries:
        found = "missing"
        if queries is not None:
            found = f"{queries:g}"
        excuse = None
        if queries is not None and has_enough_queries_by_duration(run, queries):
            excuse = Severity.WARNING
        yield run.build_fault(
            f"min_query_count {found}",
            f"{run.rule.min_queries}",
            "effective_min_query_count",
            severity=excuse,
        )


def is_long_by_query_count(run: TextRun, requested_ms: float) -> bool:
    """Return whether the number of queries, not the requested duration, made the run as long as the
    round requires.
    """
    generated, rate, least_ms = (
        run.generated,
        run.find_number("effective_target_qps"),
        run.round.minimums.min_duration_ms,
    )
    if generated is None or not rate:
        return False
    if run.scenario is Scenario.SERVER:
        requested = run.find_number("effective_min_query_count") or 0
        return (
            generated.duration_ns >= least_ms * 1e6
            and generated.queries <= requested * ARRIVAL_SPREAD_FACTOR
            and requested / rate * 1e3 * ARRIVAL_SPREAD_FACTOR >= least_ms
        )
    if run.scenario is Scenario.OFFLINE:
        latest, requested = (
            run.summary.find_number("Max latency") or 0,
            run.find_number("requested_min_query_count") or 0,
        )
        return latest >= least_ms * 1e6 and math.isclose(
            generated.samples_per_query,
            max(requested, rate * requested_ms / 1e3 * OFFLINE_SAMPLES_FACTOR),
            rel_tol=1e-4,
            abs_tol=1,
        )
    return False


def has_enough_queries_by_duration(run: TextRun, requested: float) -> bool:
    """Return whether the duration, not the requested number of queries, made Server send as many
    queries as the round requires.
    """
    generated, rate, duration_ms = (
        run.generated,
        run.find_number("effective_target_qps"),
        run.find_number("effective_min_duration_ms"),
    )
    if (
        run.scenario is not Scenario.SERVER
        or generated is None
        or not rate
        or not duration_ms
        or run.rule is None
    ):
        return False
    by_time = rate * duration_ms / 1e3
    return (
        generated.queries >= run.rule.min_queries > requested
        and by_time * ARRIVAL_SPREAD_FACTOR >= generated.queries
    )


@rule(
    "inference-text.generated",
    TextRun,
    About.RULES,
    doubt="whether the run was as long as the round requires",
    former="served.generated",
)
def generated(run: TextRun) -> Iterator[Fault]:
    """LoadGen generated at least the round's number of queries or samples, and the number that its
    settings require.

    Source: inference_rules.adoc v0.5, Number of queries; mlcommons/inference, loadgen/loadgen.cc,
    GenerateQueries.
    Advice: use the round's mlperf.conf and repeat the run.
    """
    made = run.generated
    if not run.performance or made is None or run.rule is None:
        return
    samples = made.queries * made.samples_per_query
    if made.queries < run.rule.min_queries:
        yield run.build_fault(
            f"{made.queries} queries generated", f"{run.rule.min_queries}", made.line
        )
    if run.scenario is Scenario.OFFLINE and samples < run.round.minimums.offline_samples:
        yield run.build_fault(
            f"{samples} samples generated", f"{run.round.minimums.offline_samples}", made.line
        )
    if run.scenario is Scenario.OFFLINE and made.queries != 1:
        yield run.build_fault(
            f"{made.queries} queries generated", "one query that contains all samples", made.line
        )
    per_query = run.find_number("effective_samples_per_query")
    if per_query != made.samples_per_query:
        yield run.build_fault(
            f"{made.samples_per_query} samples per query generated",
            f"{per_query}, as in the setting samples_per_query",
            made.line,
        )
    requested = run.find_number("effective_min_query_count")
    if requested is not None and made.queries < requested:
        yield run.build_fault(
            f"{made.queries} queries generated",
            f"{requested:g}, as in the setting min_query_count",
            made.line,
        )
    yield from check_generated_schedule(run)
    wanted = run.find_number("requested_min_query_count")
    rate, duration_ms = (
        run.find_number("effective_target_qps"),
        run.find_number("effective_min_duration_ms"),
    )
    if run.scenario is Scenario.OFFLINE and wanted is not None and rate and duration_ms is not None:
        expected = max(wanted, rate * duration_ms / 1e3)
        if made.samples_per_query < expected * (1 - 1e-4) - 1:
            yield run.build_fault(
                f"{made.samples_per_query} samples generated",
                f"at least {expected:.0f}, as the settings require",
                made.line,
            )


def check_generated_schedule(run: TextRun) -> Iterator[Fault]:
    """Compare the duration of the generated queries with their number and rate."""
    made, rate = run.generated, run.find_number("effective_target_qps")
    if made is None or not rate or not math.isfinite(rate):
        return
    expected = made.queries * 1e9 / rate
    tolerance = 1e-3
    if run.scenario is Scenario.SERVER:
        tolerance = 6 / math.sqrt(max(made.queries, 1))
    if abs(made.duration_ns - expected) > tolerance * expected + made.queries + 1:
        yield run.build_fault(
            f"{made.queries} queries in {made.duration_ns / 1e9:g} s",
            f"about {expected / 1e9:g} s at target_qps {rate:g}",
            made.line,
        )
    target_ns = (run.find_number("effective_target_duration_ms") or 0) * 1e6
    if run.scenario is Scenario.SERVER and made.duration_ns < target_ns:
        yield run.build_fault(
            f"queries for {made.duration_ns / 1e9:g} s generated",
            f"{target_ns / 1e9:g} s, as in the setting target_duration",
            made.line,
        )
    requested = run.find_number("effective_min_query_count") or 0
    # the earliest revisions generated more than they sent
    ended = run.phase is not None and run.phase.natural_end is not None
    if (
        run.scenario is Scenario.SERVER
        and not ended
        and made.queries > requested
        and made.duration_ns > target_ns + 60e9 / rate
    ):
        required = f"no more than the requested {requested:g} queries and {target_ns / 1e9:g} s"
        yield run.build_fault(
            f"{made.queries} queries for {made.duration_ns / 1e9:g} s generated",
            required,
            made.line,
        )
