"""Check that LoadGen's latencies (percentiles, mean and early-stopping estimate) fit one sorted
list.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.rules.inference.loadgen_summary import (
    MAX_PLAUSIBLE_QUERIES,
)
from compliance.logs.loadgen.summary_keys import LOGGED_PERCENTILES
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.loadgen import early_stopping
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.scenario import Scenario

LATENCY_SUM_OVERFLOW_NS: Final = 2.0**63
"""LoadGen adds latencies in 64 bits; the mean of a larger sum is meaningless."""


@rule("loadgen.percentiles", LoadGenRun, About.SCORE)
def percentiles(run: LoadGenRun) -> Iterator[Fault]:
    """Percentiles increase between the smallest and largest latency, the mean is consistent with
    them, and no sample takes longer than its query.

    Source: mlcommons/inference, loadgen/results.cc: percentiles of the sorted latencies, and their
    mean, truncated to whole nanoseconds.
    Advice: copy mlperf_log_detail.txt again from the run; if it has these values there too, serve
    again and report them to LoadGen.
    """
    lowest, mean, highest = (
        run.find_number(f"result_{name}_latency_ns") for name in ("min", "mean", "max")
    )
    if lowest is None or mean is None or highest is None:
        return
    if not 0 < lowest <= mean <= highest:
        yield run.build_fault(
            f"min {lowest:.0f}, mean {mean:.0f}, max {highest:.0f}",
            "0 < min <= mean <= max",
            "result_mean_latency_ns",
        )
    last = lowest
    for key in (f"result_{percentile}_percentile_latency_ns" for percentile in LOGGED_PERCENTILES):
        value = run.find_number(key)
        if value is None:
            yield run.build_fault(f"no {key}", "six percentiles")
        elif not last <= value <= highest:
            yield run.build_fault(f"{key} {value:.0f}", f"from {last:.0f} to {highest:.0f}", key)
        last = max(last, value or last)
    yield from check_sample_latencies(run)
    yield from check_mean_latencies(run)


def check_sample_latencies(run: LoadGenRun) -> Iterator[Fault]:
    """Yield sample figures above those of their queries, which end with their last sample; only
    MultiStream has both.
    """
    keys = [
        (f"result_{name}_latency_ns", f"result_{name}_query_latency_ns")
        for name in ("min", "mean", "max")
    ]
    keys += [
        (
            f"result_{percentile}_percentile_latency_ns",
            f"result_{percentile}_percentile_per_query_latency_ns",
        )
        for percentile in LOGGED_PERCENTILES
    ]
    for sample, query in keys:
        value, limit = run.find_number(sample), run.find_number(query)
        if (
            value is not None
            and limit is not None
            and (value > limit or (value < limit and "max" in sample))
        ):
            yield run.build_fault(
                f"{sample} {value:.0f}",
                f"{'' if 'max' in sample else 'at most '}{limit:.0f}, as {query}",
                sample,
            )


@rule("loadgen.early_stopping", LoadGenRun, About.SCORE)
def stopping(run: LoadGenRun) -> Iterator[Fault]:
    """The run has enough queries for its percentile. The judge repeats LoadGen's early-stopping
    arithmetic on the counts.

    Source: mlcommons/inference, loadgen/early_stopping.cc and results.cc: confidence 0.99,
    tolerance 0.
    Advice: run more queries: raise loadgen.min_queries or loadgen.min_duration_ms.
    """
    count = run.find_number("result_query_count")
    if not run.performance or run.rule is None or count is None:
        return
    over = count_late_queries(run, count)
    if over is None or not 0 <= over <= count <= MAX_PLAUSIBLE_QUERIES:
        yield run.build_fault(
            f"{over} of {count:g} queries over the bound", "counts", "result_query_count"
        )
    elif run.scenario is Scenario.SERVER and not early_stopping.is_server_run_proven(
        int(count), int(over), run.rule.percentile
    ):
        needed = early_stopping.compute_queries_needed(int(over), run.rule.percentile)
        yield run.build_fault(
            f"{over:.0f} of {count:.0f} queries over the bound",
            f"at least {needed} queries",
            "result_overlatency_query_count",
        )
    elif run.scenario in (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM):
        yield from check_stream_estimate(run, int(count), run.rule.percentile)


def count_late_queries(run: LoadGenRun, count: float) -> float | None:
    """Return the number of queries over Server's bound; None if the log lacks it.

    Where tokens are measured, LoadGen does not log that number. The percentiles of first and of
    further tokens give the fewest that there can be.
    """
    if run.scenario is not Scenario.SERVER:
        return 0.0
    if not run.measures_tokens:
        return run.find_number("result_overlatency_query_count")
    if run.rule is None or not 1 <= count <= MAX_PLAUSIBLE_QUERIES:
        return None
    bounded = (
        (FIRST_TOKEN_KEY, run.rule.first_token_ns),
        (OUTPUT_TOKEN_KEY, run.rule.per_token_ns),
    )
    return max(
        (
            float(count_fewest_over(run, int(count), form, bound))
            for form, bound in bounded
            if bound is not None
        ),
        default=0.0,
    )


def count_fewest_over(run: LoadGenRun, count: int, form: str, bound: int) -> int:
    """Return how many of `count` sorted values are over a bound at least, by the logged
    percentiles.
    """
    over = [
        count - compute_percentile_index(count, float(share))
        for share in LOGGED_PERCENTILES
        if (run.find_number(form.format(float(share))) or 0.0) > bound
    ]
    return max(over, default=0)


def check_stream_estimate(run: LoadGenRun, count: int, percentile: float) -> Iterator[Fault]:
    """Check a stream's estimate: enough queries, and the latency at the position that so many
    queries prove.
    """
    proven = early_stopping.estimate_early_stopping(count, percentile)
    if proven.rank_from_top is None:
        yield run.build_fault(
            f"{count} queries", f"at least {proven.queries_needed}", "result_query_count"
        )
        return
    if run.scenario is Scenario.MULTI_STREAM:
        key, prefixes = "early_stopping_latency_ms", ("query_", "per_query_")
    else:
        key, prefixes = "early_stopping_latency_ss", ("", "")
    if run.measures_tokens:
        known = collect_first_token_latencies(run, count)
    else:
        known = collect_known_latencies(run, count, *prefixes)
    logged_estimate = run.find_number(key)
    if logged_estimate is None or known is None:
        return
    at = count - proven.rank_from_top
    least = max(value for place, value in known.items() if place <= at)
    most = min(value for place, value in known.items() if place >= at)
    if not least <= logged_estimate <= most:
        yield run.build_fault(
            f"{key} {logged_estimate:.0f}",
            f"from {least:.0f} to {most:.0f}, between its neighbouring latencies",
            key,
        )


def collect_known_latencies(
    run: LoadGenRun, count: int, of_query: str, per_query: str
) -> Mapping[int, float] | None:
    """Return the known latencies of `count` sorted ones: position from 0 -> value; None if the log
    lacks them.
    """
    return collect_sorted_values(
        run,
        count,
        f"result_{{}}_percentile_{per_query}latency_ns",
        f"result_{{}}_{of_query}latency_ns",
    )


def collect_first_token_latencies(run: LoadGenRun, count: int) -> Mapping[int, float] | None:
    """Return the same of first tokens, which SingleStream's estimate is about where tokens are
    measured.
    """
    return collect_sorted_values(
        run,
        count,
        "result_first_token_{}_percentile_latency_ns",
        "result_first_token_{}_latency_ns",
    )


def collect_sorted_values(
    run: LoadGenRun, count: int, percentile_form: str, extreme_form: str
) -> Mapping[int, float] | None:
    """Return what the log has of `count` sorted values, by the forms of the keys of percentiles and
    of the least and the largest: position from 0 -> value; None if the log lacks one.
    """
    shares = {
        compute_percentile_index(count, float(share)): percentile_form.format(share)
        for share in LOGGED_PERCENTILES
    }
    keys = {**shares, 0: extreme_form.format("min"), count - 1: extreme_form.format("max")}
    found = {at: run.find_number(key) for at, key in sorted(keys.items())}
    if None in found.values():
        return None
    return {at: value for at, value in found.items() if value is not None}


def check_mean_latencies(run: LoadGenRun) -> Iterator[Fault]:
    """Yield means that are impossible with these percentiles: of samples, and of MultiStream's
    queries.
    """
    count, per_query = (
        run.find_number("result_query_count"),
        run.find_number("generated_samples_per_query"),
    )
    if (
        not run.performance
        or count is None
        or per_query is None
        or count < 1
        or not 1 <= count * per_query <= MAX_PLAUSIBLE_QUERIES
    ):
        return
    samples = count * per_query
    yield from check_one_mean_latency(run, int(samples), "", "")
    if run.scenario is Scenario.MULTI_STREAM:
        yield from check_one_mean_latency(run, int(count), "query_", "per_query_")


def check_one_mean_latency(
    run: LoadGenRun, count: int, of_query: str, per_query: str
) -> Iterator[Fault]:
    """Check one mean: each latency between two known ones is at least the lower and at most the
    higher.
    """
    key = f"result_mean_{of_query}latency_ns"
    known, logged_mean = (
        collect_known_latencies(run, count, of_query, per_query),
        run.find_number(key),
    )
    if known is None or logged_mean is None:
        return
    least, most = compute_sum_bounds(known)
    if most < LATENCY_SUM_OVERFLOW_NS and not least / count - 1 <= logged_mean <= most / count + 1:
        yield run.build_fault(
            f"{key} {logged_mean:.0f}",
            f"from {least / count:.0f} to {most / count:.0f}, as the percentiles imply",
            key,
        )


def compute_sum_bounds(known: Mapping[int, float]) -> tuple[float, float]:
    """Return the minimum and maximum sum of sorted values, some of which are known."""
    least = most = sum(known.values())
    for left, right in pairwise(known):
        least += (right - left - 1) * known[left]
        most += (right - left - 1) * known[right]
    return least, most
