"""What a search for the peak rate asks for, and what its runs prove."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from suite.loadgen.headline import FIRST_TOKEN_KEY, HEADLINE_METRICS, OUTPUT_TOKEN_KEY, VALID_RUN
from suite.loadgen.scenario import Scenario
from suite.studies.peak_search import (
    PeakAim,
    PeakSearch,
    RunObservation,
    compute_dispersion,
    estimate_pass_chance,
)
from suite.units import NS_PER_MS, NS_PER_S

PEAK_KIND: Final = "peak"
PROBE_PURPOSE: Final = "probe"
RUN_PURPOSE: Final = "run"
COUNTING_WINDOWS: Final = 25
"""Of a run's time, in which queries over the bound are counted: at p99 about ten a window in a run
of 24,000.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRequest:
    """The request of a search for the peak."""

    scenario: str
    """Server, or MultiStream: samples per query are searched for, a house rule."""
    percentile: float
    """0-100."""
    bound_ns: int
    """Of a query's latency; of the first token where `per_token_ns` is set."""
    of_round: bool
    """The round's own bound and percentile: only then may a run be a result."""
    min_queries: int
    min_duration_ms: int
    tolerance: float
    seen: float
    """Queries/s in full batches of the first look at the system, from which the search starts;
    MultiStream: samples per query.
    """
    per_token_ns: int | None = None
    """Bound of each further token, beside that of the first; None where the bound is a query's."""
    budget_s: float
    """Of all probes and runs; another budget continues the same search."""
    joint: bool = False
    """Of two bounds: a request that is over either one is late, and the percentile is the share of
    requests within both. Otherwise LoadGen asks for each bound on its own.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RateAttempt:
    """One LoadGen run of a search."""

    folder: str
    """Relative to the study's."""
    purpose: str
    """probe: short, never a result; run: full length."""
    rate: float
    """Queries/s asked for; MultiStream: samples per query."""
    queries: int
    """Counted ones: of a probe those after the first ten bounds."""
    over: int
    """Over the bound, of these; of two bounds the one that more are over, since LoadGen asks for
    each on its own.
    """
    dispersion: float
    """Variance over mean of the counts in windows; 1 for independent queries."""
    latency_ns: float | None
    """At the percentile; None where LoadGen does not print it. MultiStream: early stopping's
    estimate.
    """
    verdict: str
    """LoadGen's; MultiStream: whether the estimate is within the bound."""
    seconds: float
    """Wall-clock time, with the start of the system."""
    per_token_ns: float | None = None
    """Time per further token at the percentile, where it is bounded; `latency_ns` is then that of
    the first token.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakAnswer:
    """What the runs of a search prove."""

    valid: float | None
    """Highest VALID rate of a full run; None if there was none."""
    invalid: float | None
    """Lowest INVALID rate of a full run above it."""
    folder: str
    """The run of the highest VALID rate; empty if there was none."""
    passes: float | None
    """0-1: chance with which a run at that rate is VALID, by the dispersion seen; None for
    MultiStream.
    """
    runs: int
    """Full runs."""
    probes: int


def build_peak_aim(sought: PeakRequest) -> PeakAim:
    """Return what the search for a Server rate aims at."""
    return PeakAim(
        percentile=sought.percentile,
        bound_s=sought.bound_ns / NS_PER_S,
        observed_rate=sought.seen,
        min_queries=sought.min_queries,
        min_duration_s=sought.min_duration_ms / 1000,
        tolerance=sought.tolerance,
    )


def build_run_observation(attempt: RateAttempt) -> RunObservation:
    """Return a run as the search takes it."""
    full = attempt.purpose == RUN_PURPOSE
    return RunObservation(
        rate=attempt.rate,
        queries=attempt.queries,
        over=attempt.over,
        dispersion=attempt.dispersion,
        full=full,
        valid=full and attempt.verdict == VALID_RUN,
    )


def compute_peak_answer(request: PeakRequest, attempts: Sequence[RateAttempt]) -> PeakAnswer:
    """Return what runs prove: of full runs the highest VALID rate, and the lowest INVALID one above
    it.
    """
    runs = [trial for trial in attempts if trial.purpose == RUN_PURPOSE]
    best = max(
        (trial for trial in runs if trial.verdict == VALID_RUN),
        key=lambda trial: trial.rate,
        default=None,
    )
    above = [
        trial.rate
        for trial in runs
        if trial.verdict != VALID_RUN and (best is None or trial.rate > best.rate)
    ]
    chance = None
    if best and request.scenario == Scenario.SERVER.label:
        chance = estimate_pass_chance(
            replay_peak_search(build_peak_aim(request), list(map(build_run_observation, attempts))),
            best.rate,
        )
    return PeakAnswer(
        valid=best.rate if best else None,
        invalid=min(above, default=None),
        folder=best.folder if best else "",
        passes=chance,
        runs=len(runs),
        probes=len(attempts) - len(runs),
    )


def describe_pass_chance(answer: PeakAnswer, attempts: Sequence[RateAttempt]) -> str:
    """Say how sure it is that a run like the best one passes: what runs at its rate or below did,
    and the chance by the late queries of all runs where the best one had any. Without a late query
    in it that chance follows from the faster runs alone, whose queries were late in bursts: then it
    is no statement about this rate.
    """
    best = next((each for each in attempts if each.folder == answer.folder), None)
    if answer.passes is None or best is None:
        return ""
    runs = [each for each in attempts if each.purpose == RUN_PURPOSE and each.rate <= best.rate]
    valid = sum(each.verdict == VALID_RUN for each in runs)
    told = f"{valid} of {len(runs)} full runs at this rate or below were VALID"
    if not best.over:
        return f"{told}, the best one without a late query"
    return f"{told}; by the late queries seen, a run like the best passes in about" + (
        f" {100 * answer.passes:.0f} % of cases"
    )


def format_peak_rate(sought: PeakRequest, rate: float) -> str:
    """Format a rate."""
    if sought.scenario == Scenario.SERVER.label:
        return f"{rate:,.1f} queries/s"
    return f"{rate:.0f} samples per query"


def format_peak_bound(
    sought: PeakRequest, latency_ns: float | None = None, per_token_ns: float | None = None
) -> str:
    """Format the bound of a search, or both bounds of tokens, with what a run reached of them."""
    bound = format_reached_bound(sought.bound_ns, latency_ns)
    if sought.per_token_ns is None:
        return bound
    further = format_reached_bound(sought.per_token_ns, per_token_ns)
    return f"{bound} to the first token and {further} per further one"


def format_reached_bound(bound_ns: int, reached_ns: float | None) -> str:
    """Format a bound, ns, and what a run reached of it, such as `48.1 of 50 ms`."""
    bound = f"{bound_ns / NS_PER_MS:g} ms"
    return bound if reached_ns is None else f"{reached_ns / NS_PER_MS:.1f} of {bound}"


def select_latency_keys(sought: PeakRequest) -> tuple[str, str | None]:
    """Return the keys in LoadGen's detail log of the latency that a search bounds, and of the time
    per further token; None if that is not bounded.
    """
    if sought.scenario != Scenario.SERVER.label:
        return HEADLINE_METRICS[Scenario.MULTI_STREAM][1], None
    if sought.per_token_ns is None:
        return f"result_{sought.percentile:.2f}_percentile_latency_ns", None
    return (
        FIRST_TOKEN_KEY.format(sought.percentile),
        OUTPUT_TOKEN_KEY.format(sought.percentile),
    )


def compute_token_latencies(
    issued_ns: Any, first_ns: Any, last_ns: Any, tokens: Any
) -> tuple[Any, Any]:
    """Compute the time to the first token and the time per further one of each answer, ns, from
    arrays in order of issue; an answer of one token has no further ones, and takes 0 for them.
    """
    further = tokens - 1
    return first_ns - issued_ns, (last_ns - first_ns) // further.clip(min=1)


def count_attempt_queries(
    sought: PeakRequest, latencies: Sequence[Any], skipped: int
) -> tuple[int, int, float]:
    """Count the queries of a run over the bound of a search.

    Args:
        sought: has the bounds.
        latencies: of queries, or of first and of further tokens: arrays, ns, in order of issue.
        skipped: queries at the start that do not count.

    Returns:
        queries counted, over the bound, and dispersion; of two bounds those of the one that more
        queries are over, or jointly those over either.
    """
    bounds = (sought.bound_ns, sought.per_token_ns)
    if sought.joint:
        first, further = latencies
        return count_late_queries(((first > bounds[0]) | (further > bounds[1]))[skipped:])
    counted = [
        count_queries_over_bound(each, bound, skipped)
        for each, bound in zip(latencies, bounds, strict=False)
        if bound is not None
    ]
    return max(counted, key=lambda each: each[1])


def count_queries_over_bound(
    latencies_ns: Any, bound_ns: int, skipped: int
) -> tuple[int, int, float]:
    """Count queries over the bound: latencies (an array, ns, in order of issue) in; queries
    counted, over the bound, and dispersion out.
    """
    return count_late_queries(latencies_ns[skipped:] > bound_ns)


def count_late_queries(late: Any) -> tuple[int, int, float]:
    """Count queries (a bool array, in order of issue): all, those that are late, and the
    dispersion.
    """
    ends = [len(late) * part // COUNTING_WINDOWS for part in range(COUNTING_WINDOWS + 1)]
    counts = [float(late[start:end].sum()) for start, end in zip(ends, ends[1:], strict=False)]
    return len(late), int(late.sum()), compute_dispersion(counts)


def replay_peak_search(aim: PeakAim, observations: Sequence[RunObservation]) -> PeakSearch:
    """Return the state of a search after these runs."""
    search = PeakSearch(aim)
    for each in observations:
        search.record_run(each)
    return search
