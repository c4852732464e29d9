"""Advice for INVALID runs: the failed rule, the measured value, the setting to change and the next
value to try. Pure functions.

Source of the rules: mlcommons/inference, loadgen/results.cc, PerformanceSummary: MinDurationMet,
MinQueriesMet, PerfConstraintsMet, EarlyStopping.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from suite.loadgen import early_stopping
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow
from suite.units import NS_PER_MS, NS_PER_S, NS_PER_US

SERVER_RATE_SETTING: Final = "server.target_qps"
OFFLINE_RATE_SETTING: Final = "offline.expected_qps"
LATENCY_BOUND_RULE: Final = "latency bound"
EARLY_STOPPING_RULE: Final = "early stopping"
LOADGEN_QUERIES_SETTING: Final = "loadgen.min_queries"
EXPECTED_LATENCY_SETTINGS: Final = {
    Scenario.SINGLE_STREAM: "single_stream.expected_latency_us",
    Scenario.MULTI_STREAM: "multi_stream.expected_latency_us",
}
SERVER_RATE_FACTOR: Final = 1.1
"""House rule: advice for a Server run that was too short is its own rate plus a tenth; more could
break its bound.
"""
OFFLINE_RATE_FACTOR: Final = 1.5
"""House rule: advice for an Offline run that was too short is its own rate plus a half, since rates
on a shared machine vary by that much.
"""
FEW_IN_PROGRESS: Final = 0.5
"""House rule: with so few queries at once on average, most are answered alone."""
REDUCED_RATE_SHARES: Final = (0.5, 0.9)
"""House rule: a Server rate that could not be sustained becomes this share of the completed rate,
depending on how far the bound was missed.
"""
LATE_QUERY_SIGMAS: Final = 3.0
"""House rule: late queries follow a Poisson distribution; this many standard deviations more may be
late in the next run.
"""
EXPECTED_LATENCY_SHARE: Final = 0.25
"""House rule: SingleStream and MultiStream expect this share of the measured latency, so that there
are enough queries for a run four times as fast, and eight times where LoadGen's own reserve comes
on top (loadgen.cc, GenerateQueries:
duration_multiplier). A query takes some 300 bytes."""
SIGNIFICANT_DIGITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Why LoadGen calls a run INVALID, and what to try next."""

    rule: str
    found: str
    knob: str
    """A setting for `--set`."""
    value: float | None
    """The value to try next."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceFigures:
    """LoadGen's figures of one performance run."""

    duration_met: bool
    queries_met: bool
    early_stopping_met: bool
    bound_met: bool
    queries: int
    over_bound: int
    """Server: queries above the latency bound."""
    latency_ns: float
    """Server: latency at the row's percentile; SingleStream, MultiStream: mean latency of a query;
    Offline: latency of its one query.
    """
    median_ns: float
    """SingleStream, MultiStream: median latency of a query, which a few slow ones of a busy machine
    do not move; else 0.
    """
    rate: float
    """Server: completed queries/s; Offline: samples/s; else 0."""
    mean_ns: float = 0.0
    """Server: mean latency of a query; else 0."""
    first_token_ns: float = 0.0
    per_token_ns: float = 0.0
    """Server: times to the first token and for each further one at the row's percentile, where they
    are measured; else 0.
    """

    @property
    def in_progress(self) -> float:
        """Return the queries that were in progress on average, by Little's law; 0 if that is not
        known.
        """
        return self.rate * self.mean_ns / NS_PER_S


def collect_run_hints(
    scenario: Scenario, row: ScenarioRow, facts: PerformanceFigures
) -> tuple[Hint, ...]:
    """Return hints for a run that LoadGen calls INVALID, the most urgent first; empty if all rules
    are met.
    """
    return tuple(find_run_hints(scenario, row, facts))


def find_run_hints(
    scenario: Scenario, row: ScenarioRow, facts: PerformanceFigures
) -> Iterator[Hint]:
    """Yield a hint for each rule that is not met."""
    if not facts.bound_met or (
        scenario is Scenario.SERVER and not facts.early_stopping_met and facts.over_bound
    ):
        yield build_rate_hint(row, facts)
    if facts.bound_met and not facts.early_stopping_met:
        yield build_early_stopping_hint(scenario, row, facts)
    if not facts.duration_met:
        yield build_duration_hint(scenario, row, facts)
    if not facts.queries_met and facts.early_stopping_met:
        yield build_query_count_hint(row, facts)


def build_rate_hint(row: ScenarioRow, facts: PerformanceFigures) -> Hint:
    """Server: too many queries above the bound."""
    low, high = REDUCED_RATE_SHARES
    found, share = describe_missed_bounds(row, facts)
    hint = build_run_hint(
        LATENCY_BOUND_RULE if not facts.bound_met else EARLY_STOPPING_RULE,
        found,
        SERVER_RATE_SETTING,
        round_to_significant(facts.rate * min(high, max(low, share))),
        "ask for fewer queries a second",
    )
    if not 0 < facts.in_progress < FEW_IN_PROGRESS:
        return hint
    alone = (
        f"{hint.rule}: {found}; {facts.in_progress:.1f} queries were in progress on average, so"
        " that fewer a second hardly help: end other programs on these cores, or serve with a"
        " faster --engine or --precision"
    )
    return replace(hint, sentence=alone)


def describe_missed_bounds(row: ScenarioRow, facts: PerformanceFigures) -> tuple[str, float]:
    """Describe latencies beside their bounds; with the smallest quotient of bound and latency."""
    if not row.token_latencies:
        bound = row.bound_ns or 1
        found = (
            f"p{row.percentile:g} of {facts.latency_ns / NS_PER_MS:.1f} ms, {facts.over_bound} of"
            f" {facts.queries} queries over the bound of {bound / NS_PER_MS:g} ms"
        )
        return found, bound / max(facts.latency_ns, 1)
    first, further = row.first_token_ns or 1, row.per_token_ns or 1
    found = (
        f"p{row.percentile:g} of {facts.first_token_ns / NS_PER_MS:.1f} ms to the first token"
        f" (bound: {first / NS_PER_MS:g} ms) and {facts.per_token_ns / NS_PER_MS:.1f} ms for each"
        f" further one (bound: {further / NS_PER_MS:g} ms)"
    )
    return found, min(first / max(facts.first_token_ns, 1), further / max(facts.per_token_ns, 1))


def build_early_stopping_hint(
    scenario: Scenario, row: ScenarioRow, facts: PerformanceFigures
) -> Hint:
    """Too few queries to prove the percentile."""
    late = facts.over_bound
    over = 1
    if scenario is Scenario.SERVER:
        over = late + math.ceil(LATE_QUERY_SIGMAS * math.sqrt(late))
    needed = early_stopping.compute_queries_needed(over, row.percentile)
    return build_run_hint(
        EARLY_STOPPING_RULE,
        f"{facts.queries} queries prove no p{row.percentile:g}, {needed} would",
        LOADGEN_QUERIES_SETTING,
        float(max(needed, row.min_queries)),
        "let the run have more queries",
    )


def build_duration_hint(scenario: Scenario, row: ScenarioRow, facts: PerformanceFigures) -> Hint:
    """The run ended before the minimum duration because it ran out of prepared queries."""
    if scenario in EXPECTED_LATENCY_SETTINGS:
        lasted_ns = facts.queries * facts.latency_ns
        value: float = max(1, math.floor(EXPECTED_LATENCY_SHARE * facts.median_ns / NS_PER_US))
        knob, action = (
            EXPECTED_LATENCY_SETTINGS[scenario],
            "expect a shorter latency, so that LoadGen prepares more queries",
        )
    elif scenario is Scenario.SERVER:
        lasted_ns = NS_PER_S * facts.queries / max(facts.rate, 1e-9)
        value, knob, action = (
            round_to_significant(facts.rate * SERVER_RATE_FACTOR),
            SERVER_RATE_SETTING,
            "ask for more queries a second, so that LoadGen prepares more",
        )
    else:
        lasted_ns = facts.latency_ns
        value, knob, action = (
            round_to_significant(facts.rate * OFFLINE_RATE_FACTOR),
            OFFLINE_RATE_SETTING,
            "expect a higher rate, so that LoadGen makes its query larger",
        )
    found = f"{lasted_ns / NS_PER_S:.1f} s of at least {row.min_duration_ms / 1e3:g} s"
    return build_run_hint("minimum duration", found, knob, value, action)


def build_query_count_hint(row: ScenarioRow, facts: PerformanceFigures) -> Hint:
    """LoadGen stopped before the minimum query count."""
    found = f"{facts.queries} queries of at least {row.min_queries}"
    return build_run_hint(
        "minimum queries",
        found,
        LOADGEN_QUERIES_SETTING,
        float(row.min_queries),
        "the detail log says why LoadGen stopped; ask for the round's own count",
    )


def build_run_hint(rule: str, found: str, knob: str, value: float, action: str) -> Hint:
    """Format a hint as a sentence with a setting that the user can type."""
    return Hint(
        rule=rule,
        found=found,
        knob=knob,
        value=value,
        sentence=f"{rule}: {found}; {action}: --set {knob}={format_without_exponent(value)}",
    )


def format_without_exponent(value: float) -> str:
    """Print a number without an exponent, which integer settings do not accept."""
    if value == int(value):
        return str(int(value))
    return str(value)


def round_to_significant(value: float) -> float:
    """Round to three significant digits, to the nearest value but never to zero."""
    if value <= 0:
        return 1.0
    return round(value, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(value)))
