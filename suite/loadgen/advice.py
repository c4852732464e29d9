"""Advice for INVALID runs: the failed rule, the measured value, the setting to change and the next
value to try. Pure functions.

Source of the rules: mlcommons/inference, loadgen/results.cc, PerformanceSummary: MinDurationMet,
MinQueriesMet,
PerfConstraintsMet, EarlyStopping.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from suite.loadgen import early_stopping
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow

RATE_KNOB: Final = "server.target_qps"
BOUND: Final = "latency bound"
EARLY_STOPPING: Final = "early stopping"
QUERIES_KNOB: Final = "loadgen.min_queries"
LATENCY_KNOBS: Final = {
    Scenario.SINGLE_STREAM: "single_stream.expected_latency_us",
    Scenario.MULTI_STREAM: "multi_stream.expected_latency_us",
}
LONGER: Final = 1.1
"""House rule: advice for a Server run that was too short is its own rate plus a tenth; more could
break its bound.
"""
MORE: Final = 1.5
"""House rule: advice for an Offline run that was too short is its own rate plus a half, since rates
on a shared machine vary by that much.
"""
GENTLER: Final = (0.5, 0.9)
"""House rule: a Server rate that could not be sustained becomes this share of the completed rate,
depending on how far the bound was missed.
"""
SIGMAS: Final = 3.0
"""House rule: late queries follow a Poisson distribution; this many standard deviations more may be
late in the next run.
"""
LATENCY_SHARE: Final = 0.25
"""House rule: SingleStream and MultiStream expect this share of the measured latency, so that there
are enough queries for a run four times as fast,
and eight times where LoadGen's own reserve comes on top (loadgen.cc, GenerateQueries:
duration_multiplier). A query takes some 300 bytes."""
DIGITS: Final = 3
NS_PER_US: Final = 1e3
NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9


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
class Facts:
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


def advise(scenario: Scenario, row: ScenarioRow, facts: Facts) -> tuple[Hint, ...]:
    """Return hints for a run that LoadGen calls INVALID, the most urgent first; empty if all rules
    are met.
    """
    return tuple(hints(scenario, row, facts))


def hints(scenario: Scenario, row: ScenarioRow, facts: Facts) -> Iterator[Hint]:
    """Yield a hint for each rule that is not met."""
    if not facts.bound_met or (
        scenario is Scenario.SERVER and not facts.early_stopping_met and facts.over_bound
    ):
        yield too_fast(row, facts)
    if facts.bound_met and not facts.early_stopping_met:
        yield too_few(scenario, row, facts)
    if not facts.duration_met:
        yield too_short(scenario, row, facts)
    if not facts.queries_met and facts.early_stopping_met:
        yield ended_early(row, facts)


def too_fast(row: ScenarioRow, facts: Facts) -> Hint:
    """Server: too many queries above the bound."""
    bound = row.bound_ns or 1
    low, high = GENTLER
    value = significant(facts.rate * min(high, max(low, bound / max(facts.latency_ns, 1))))
    found = (
        f"p{row.percentile:g} of {facts.latency_ns / NS_PER_MS:.1f} ms, {facts.over_bound} of"
        f" {facts.queries} queries over the bound"
    )
    return make(
        BOUND if not facts.bound_met else EARLY_STOPPING,
        f"{found} of {bound / NS_PER_MS:g} ms",
        RATE_KNOB,
        value,
        "ask for fewer queries a second",
    )


def too_few(scenario: Scenario, row: ScenarioRow, facts: Facts) -> Hint:
    """Too few queries to prove the percentile."""
    late = facts.over_bound
    over = late + math.ceil(SIGMAS * math.sqrt(late)) if scenario is Scenario.SERVER else 1
    needed = early_stopping.queries_needed(over, row.percentile)
    return make(
        EARLY_STOPPING,
        f"{facts.queries} queries prove no p{row.percentile:g}, {needed} would",
        QUERIES_KNOB,
        float(max(needed, row.min_queries)),
        "let the run have more queries",
    )


def too_short(scenario: Scenario, row: ScenarioRow, facts: Facts) -> Hint:
    """The run ended before the minimum duration because it ran out of prepared queries."""
    if scenario in LATENCY_KNOBS:
        seen = facts.queries * facts.latency_ns
        value: float = max(1, math.floor(LATENCY_SHARE * facts.median_ns / NS_PER_US))
        knob, action = (
            LATENCY_KNOBS[scenario],
            "expect a shorter latency, so that LoadGen prepares more queries",
        )
    elif scenario is Scenario.SERVER:
        seen = NS_PER_S * facts.queries / max(facts.rate, 1e-9)
        value, knob, action = (
            significant(facts.rate * LONGER),
            RATE_KNOB,
            "ask for more queries a second, so that LoadGen prepares more",
        )
    else:
        seen = facts.latency_ns
        value, knob, action = (
            significant(facts.rate * MORE),
            "offline.expected_qps",
            "expect a higher rate, so that LoadGen makes its query larger",
        )
    found = f"{seen / NS_PER_S:.1f} s of at least {row.min_duration_ms / 1e3:g} s"
    return make("minimum duration", found, knob, value, action)


def ended_early(row: ScenarioRow, facts: Facts) -> Hint:
    """LoadGen stopped before the minimum query count."""
    found = f"{facts.queries} queries of at least {row.min_queries}"
    return make(
        "minimum queries",
        found,
        QUERIES_KNOB,
        float(row.min_queries),
        "the detail log says why LoadGen stopped; ask for the round's own count",
    )


def make(rule: str, found: str, knob: str, value: float, action: str) -> Hint:
    """Format a hint as a sentence with a setting that the user can type."""
    return Hint(
        rule=rule,
        found=found,
        knob=knob,
        value=value,
        sentence=f"{rule}: {found}; {action}: --set {knob}={plain(value)}",
    )


def plain(value: float) -> str:
    """Print a number without an exponent, which integer settings do not accept."""
    return str(int(value)) if value == int(value) else str(value)


def significant(value: float) -> float:
    """Round to three significant digits, to the nearest value but never to zero."""
    if value <= 0:
        return 1.0
    return round(value, DIGITS - 1 - math.floor(math.log10(value)))
