"""Check the runs of language models (token latencies, samples issued equally often), and early
stopping in every benchmark.
"""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from compliance.kinds.inference_mllog.documents.run import MllogEntry, MllogRun
from compliance.kinds.inference_mllog.rules.run import has_detail_records
from compliance.logs.loadgen.summary_keys import LOGGED_PERCENTILES
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.loadgen.early_stopping import (
    compute_queries_needed,
    estimate_early_stopping,
    is_server_run_proven,
)

FIRST_TOKEN_EVENT: Final = "result_first_token_99.00_percentile_latency_ns"
PER_TOKEN_EVENT: Final = "result_time_per_output_token_99.00_percentile_ns"
TOKEN_RATE_EVENTS: Final = {
    "Server": ("result_completed_tokens_per_second", "result_inferred_completed_tokens_per_second"),
    "Offline": ("result_tokens_per_second", "result_inferred_tokens_per_second"),
}
"""Scenario -> tokens per second: counted, or computed from a constant number of tokens per sample.
"""
SAMPLE_RATE_OF_TOKEN_RATE: Final = {
    "result_tokens_per_second": "result_samples_per_second",
    "result_completed_tokens_per_second": "result_completed_samples_per_sec",
}
"""Rate of tokens -> rate of the samples that contain them."""
MEAN_TOKEN_LATENCY_EVENTS: Final = (
    "result_mean_latency_ns",
    "result_first_token_mean_latency_ns",
    "result_time_to_output_token_mean",
)
COMPLETED_RATE_EVENTS: Final = (
    "result_completed_tokens_per_second",
    "result_completed_samples_per_sec",
)
TOKEN_TIME_PERCENTILES: Final = (50, 90, 95, 97, 99, 99.9)
"""Of the times per token. Source: mlcommons/inference, loadgen/results.cc."""
USUAL_TOKEN_TIME_DIFFERENCE: Final = 0.03
MAX_TOKEN_TIME_DIFFERENCE: Final = 0.1
"""Relative: answers of different lengths may be generated at different speeds."""
OTHER_ANSWERS_FACTOR: Final = 1.5
ANSWER_LENGTH_TOLERANCE: Final = 0.1
"""House rule: if the lengths of answers differ by this factor, the answers differ; in published
results both runs agree within 0.3 %.
"""
MAX_ANSWER_LENGTH_FACTOR: Final = 1.25
"""House rule: the rules do not say how many end tokens of an answer a submitter counts."""
EARLY_STOPPING_SCENARIOS: Final = ("Server", "SingleStream", "MultiStream")
ESTIMATE_EVENTS: Final = {
    "SingleStream": ("early_stopping_latency_ss", 0.9),
    "MultiStream": ("early_stopping_latency_ms", 0.99),
}
"""Scenario -> event of the estimate, and the percentile (0-1) that it proves, if the log does not
state it.
"""
ESTIMATE_TEXT_PATTERN: Final = r"Early stopping {}th percentile estimate: (\d{{1,20}})"
TOKEN_LATENCY_PROOFS: Final = {
    "early_stopping_ttft_result": (
        "time to first token",
        FIRST_TOKEN_EVENT,
        "requested_server_ttft_latency",
    ),
    "early_stopping_tpot_result": (
        "time per output token",
        PER_TOKEN_EVENT,
        "requested_server_tpot_latency",
    ),
}
"""Event with LoadGen's text on early stopping -> the latency's name, its percentile, its bound."""
MISSING_QUERIES_PATTERN: Final = re.compile(
    r"Processed (\d{1,20}) queries.*?at least (\d{1,20})\s+more queries", re.DOTALL
)
NANOSECONDS_PER_SECOND: Final = 1e9


@rule(
    "inference-mllog.tokens",
    MllogRun,
    About.SCORE,
    doubt="the latencies of tokens",
    former="later.tokens",
)
def tokens(run: MllogRun) -> Iterator[Fault]:
    """LoadGen measures the token latencies of a language model: time to first token and time per
    output token meet their bounds.

    Source: submission-checker.py, extra_check_llm and LLM_LATENCY_LIMITS; since v6.0
    performance_check.py, llm_check.
    Advice: use the round's mlperf.conf; lower the rate and repeat the run.
    """
    if (
        not run.performance
        or not run.closed
        or not has_detail_records(run)
        or run.model is None
        or not run.model.token_latencies
    ):
        return
    if run.find_value("requested_use_token_latencies") is not True:
        yield run.build_fault(
            f"use_token_latencies {run.find_value('requested_use_token_latencies')}",
            "true",
            "requested_use_token_latencies",
        )
    if run.logged_scenario != "Server":
        return
    scenario = run.scenario or run.logged_scenario
    for key, bounds in (
        (FIRST_TOKEN_EVENT, run.model.first_token_ns),
        (PER_TOKEN_EVENT, run.model.per_token_ns),
    ):
        told, bound = run.find_number(key), bounds.get(scenario)
        if bound is not None and (told is None or not 0 < told < bound):
            yield run.build_fault(f"{key} {told}", f"above 0 and below {bound}", key)


@rule(
    "inference-mllog.token_bounds",
    MllogRun,
    About.RULES,
    doubt="whether the run met the latency bound",
    former="later.token_bounds",
)
def token_bounds(run: MllogRun) -> Iterator[Fault]:
    """LoadGen receives the benchmark's bounds for the time to first token and the time per output
    token.

    Source: mlcommons/inference, mlperf.conf of the round: ttft_latency and tpot_latency;
    submission-checker.py, LLM_LATENCY_LIMITS.
    Advice: use the round's mlperf.conf and repeat the run.
    """
    if (
        not run.performance
        or not run.closed
        or run.model is None
        or run.logged_scenario != "Server"
    ):
        return
    scenario = run.scenario or run.logged_scenario
    given = (
        ("requested_server_ttft_latency", run.model.first_token_ns),
        ("requested_server_tpot_latency", run.model.per_token_ns),
    )
    for key, bounds in given:
        told, bound = run.find_number(key), bounds.get(scenario)
        if bound is not None and told is not None and told > bound:
            yield run.build_fault(f"{key} {told:g}", f"at most {bound}", key)


@rule(
    "inference-mllog.token_time",
    MllogRun,
    About.SCORE,
    doubt="the rate of tokens",
)
def token_time(run: MllogRun) -> Iterator[Fault]:
    """The mean latency without the mean time to the first token, divided by the mean time per
    output token, gives the tokens of an answer: as many as the rates of tokens and samples give. A
    greater difference than the spread of the times per token explains is an error, a smaller one a
    warning.

    Source: arithmetic. The mean time per token weighs each answer equally, and the latencies weigh
    it by its length. By the Cauchy-Schwarz inequality the two means differ by at most the product
    of the relative deviations of times and lengths; lengths are taken to deviate by at most their
    mean.
    Advice: report first tokens and token counts to LoadGen for every answer; if that is done, copy
    the detail log again.
    """
    if run.logged_scenario != "Server" or not run.performance:
        return
    latency, first, each = map(run.find_number, MEAN_TOKEN_LATENCY_EVENTS)
    tokens, samples = map(run.find_number, COMPLETED_RATE_EVENTS)
    if not latency or not first or not each or not tokens or not samples or latency <= first:
        return
    lowest = run.find_number("result_min_latency_ns")
    if lowest is None or latency < lowest:
        return  # LoadGen's sum of latencies has overflown
    length, wanted = (latency - first) / each + 1, tokens / samples
    difference = abs(length / wanted - 1)
    explained = max(MAX_TOKEN_TIME_DIFFERENCE, bound_token_time_deviation(run, each))
    known = run.round.rules.offline_span_known and difference > explained
    if difference > USUAL_TOKEN_TIME_DIFFERENCE:
        yield run.build_fault(
            f"{wanted:.4g} tokens per answer by the rates",
            f"about {length:.4g}, by the latencies",
            COMPLETED_RATE_EVENTS[0],
            severity=None if known else Severity.WARNING,
        )


def bound_token_time_deviation(run: MllogRun, mean: float) -> float:
    """Return the highest relative standard deviation of times per token that the run's percentiles
    and extremes allow; 0 if the log lacks them.
    """
    low, high = (run.find_number(f"result_time_to_output_token_{end}") for end in ("min", "max"))
    if low is None or high is None:
        return 0.0
    edges = [(0.0, low)]
    for share in TOKEN_TIME_PERCENTILES:
        value = run.find_number(f"result_time_per_output_token_{share:.2f}_percentile_ns")
        if value is not None:
            edges.append((share / 100, value))
    edges.append((1.0, high))
    square = sum(
        (share - below) * max((start - mean) ** 2, (end - mean) ** 2)
        for (below, start), (share, end) in pairwise(edges)
    )
    return math.sqrt(square) / mean


@rule(
    "inference-mllog.token_count",
    MllogRun,
    About.SCORE,
    doubt="the rate of tokens",
    former="later.token_count",
)
def token_count(run: MllogRun) -> Iterator[Fault]:
    """A run that measures tokens produced at least one.

    Source: submission-checker.py, RESULT_FIELD_BENCHMARK_OVERWRITE; mlcommons/inference,
    loadgen/results.cc: tokens per second.
    Advice: report the number of tokens of each answer to LoadGen (QuerySampleResponse.n_tokens),
    and repeat the run.
    """
    if (
        not run.performance
        or not run.closed
        or run.find_value("requested_use_token_latencies") is not True
    ):
        return
    for key in (key for keys in TOKEN_RATE_EVENTS.values() for key in keys):
        if key in run.index and (run.find_number(key) or 0) <= 0:
            yield run.build_fault(f"{key} {run.find_value(key)}", "above 0", key)
    needed = TOKEN_RATE_EVENTS.get(run.logged_scenario or "", ())
    if (
        needed
        and run.round.rules.server_result == "completed"
        and not any(key in run.index for key in needed)
    ):
        yield run.build_fault(f"no {needed[0]}", "tokens per second")


@rule(
    "inference-mllog.token_rate",
    MllogEntry,
    About.SCORE,
    doubt="the rate of tokens",
    former="later.token_rate",
)
def token_rate(entry: MllogEntry) -> Iterator[Fault]:
    """The answers of a performance run are as long as those of the accuracy run, measured by tokens
    per second divided by samples per second.

    Source: submission-checker.py, TOKENS_PER_SAMPLE: answers of the accuracy run within a tenth of
    the reference's; house rule: timed answers are not longer.
    Advice: report to LoadGen the number of tokens of each answer (QuerySampleResponse.n_tokens),
    with the same limit of tokens in both runs.
    """
    wanted, most = entry.tokens, entry.model.most_tokens if entry.model else None
    if entry.division != "closed":
        return
    for run in entry.performance:
        key, length = compute_answer_length(run)
        if not length:
            continue
        if wanted and not 1 / OTHER_ANSWERS_FACTOR < length / wanted < OTHER_ANSWERS_FACTOR:
            yield run.build_fault(
                f"{length:.1f} tokens per sample", f"{wanted:.1f}, as in accuracy.txt", key
            )
        elif wanted and abs(length / wanted - 1) > ANSWER_LENGTH_TOLERANCE:
            yield run.build_fault(
                f"{length:.1f} tokens per sample",
                f"about {wanted:.1f}, as in accuracy.txt",
                key,
                severity=Severity.WARNING,
            )
        elif not wanted and most and length > most * MAX_ANSWER_LENGTH_FACTOR:
            yield run.build_fault(
                f"{length:.1f} tokens per sample",
                f"at most {most}, the maximum length of an answer",
                key,
            )
        elif not wanted and entry.characters and length > entry.characters:
            yield run.build_fault(
                f"{length:.1f} tokens per sample",
                f"fewer than its {entry.characters:.1f} characters in accuracy.txt",
                key,
            )


def compute_answer_length(run: MllogRun) -> tuple[str, float]:
    """Return the mean number of tokens in an answer, with the event of their rate; 0 if LoadGen did
    not count them.
    """
    pairs = (
        (key, run.find_number(key), run.find_number(other))
        for key, other in SAMPLE_RATE_OF_TOKEN_RATE.items()
    )
    return next(
        ((key, rate / samples) for key, rate, samples in pairs if rate and samples), ("", 0.0)
    )


@rule(
    "inference-mllog.equal_issue",
    MllogRun,
    About.RULES,
    doubt="whether each sample was issued as often as the others",
    former="later.equal_issue",
)
def equal_issue(run: MllogRun) -> Iterator[Fault]:
    """Benchmarks with samples of very different lengths issue each sample equally often. Where the
    setting is on and LoadGen still issued no whole rounds of the samples, it is a warning.

    Source: mlcommons/inference, mlperf.conf of the round: sample_concatenate_permutation;
    submission-checker.py, requires_equal_issue, which reads the setting only. Two accepted results
    of v4.1 issued other numbers with the setting on.
    Advice: use the round's mlperf.conf and repeat the run.
    """
    key = "effective_sample_concatenate_permutation"
    if (
        not run.performance
        or not run.closed
        or not has_detail_records(run)
        or run.model is None
        or not run.model.equal_issue
        or run.scenario in run.model.equal_issue_except
    ):
        return
    if (stated := run.find_value(key)) is not True:
        about = About.FORM if stated is None else None  # some LoadGens did not log it yet
        yield run.build_fault(f"sample_concatenate_permutation {stated}", "true", key, about=about)
        return
    count, each, total = (
        run.find_number(name)
        for name in (
            "generated_query_count",
            "generated_samples_per_query",
            "effective_performance_sample_count",
        )
    )
    if (
        run.logged_scenario in ("Server", "Offline")
        and count
        and each
        and total
        and (count * each) % total
    ):
        yield run.build_fault(
            f"{count * each:.0f} samples issued",
            f"a multiple of the {total:.0f} in memory, since each is issued equally often",
            key,
            severity=Severity.WARNING,
        )


@rule(
    "inference-mllog.early_stopping",
    MllogRun,
    About.SCORE,
    doubt="the latency percentile",
    former="later.early_stopping",
)
def early_stopping(run: MllogRun) -> Iterator[Fault]:
    """Early stopping confirms that enough queries were processed, and its estimate of a latency is
    between the adjacent percentiles.

    Source: submission-checker.py, uses_early_stopping; mlcommons/inference,
    loadgen/early_stopping.cc and results.cc, EarlyStopping.
    Advice: make the run longer by the missing queries, or lower the rate.
    """
    if (
        not run.performance
        or not run.round.rules.early_stopping
        or run.logged_scenario not in EARLY_STOPPING_SCENARIOS
    ):
        return
    if (met := run.find_value("early_stopping_met")) is not True:
        reasons = list(explain_missing_queries(run)) or [f"early_stopping_met {met}"]
        yield run.build_fault(
            "; ".join(reasons),
            "enough queries to prove the percentile (early_stopping_met true)",
            "early_stopping_met",
        )
    yield from check_latency_estimate(run)
    over, count = (
        run.find_number("result_overlatency_query_count"),
        run.find_number("result_query_count"),
    )
    measured = (
        run.find_value("requested_use_token_latencies") is not True
        and run.logged_scenario == "Server"
    )
    if (
        measured
        and over is not None
        and count
        and not is_server_run_proven(int(count), int(over), resolve_target_percentile(run, 0.99))
    ):
        yield run.build_fault(
            f"{over:.0f} of {count:.0f} queries over the bound",
            "at least "
            f"{compute_queries_needed(int(over), resolve_target_percentile(run, 0.99))} queries to"
            " prove the percentile with so many over the bound",
            "result_overlatency_query_count",
        )


def explain_missing_queries(run: MllogRun) -> Iterator[str]:
    """Say how many queries are missing to prove each token latency."""
    for key, (name, percentile_event, bound_event) in TOKEN_LATENCY_PROOFS.items():
        text = str(run.find_value(key) or "")
        if not (counts := MISSING_QUERIES_PATTERN.search(text)):
            continue
        measured, bound = run.find_number(percentile_event), run.find_number(bound_event)
        shown = ""
        if measured and bound:
            measured_s, bound_s = measured / NANOSECONDS_PER_SECOND, bound / NANOSECONDS_PER_SECOND
            shown = f"p99 {measured_s:.4g} s of {bound_s:.4g} s, but "
        yield (
            f"{name}: {shown}not proven after {int(counts[1]):,} queries: at least"
            f" {int(counts[2]):,} more without one over the bound"
        )


def check_latency_estimate(run: MllogRun) -> Iterator[Fault]:
    """Check the estimate against the adjacent percentiles."""
    name, usual = ESTIMATE_EVENTS.get(run.logged_scenario or "", ("", 0.0))
    told, count = run.find_number(name), run.find_number("result_query_count")
    if not name or not count:
        return
    percentile = resolve_target_percentile(run, usual)
    place = estimate_early_stopping(int(count), percentile).rank_from_top
    if place is None or told is None or told <= 0:
        yield run.build_fault(
            f"{name} {run.find_value(name)} after {count:.0f} queries",
            "an estimate, and enough queries for it",
            name,
        )
        return
    shown = next(
        iter(
            re.findall(
                ESTIMATE_TEXT_PATTERN.format(percentile),
                str(run.find_value("early_stopping_result")),
            )
        ),
        None,
    )
    if shown is not None and int(shown) != told:
        yield run.build_fault(f"{name} {told:.0f}", f"{shown}, as in early_stopping_result", name)
    lower, upper = find_neighbouring_latencies(run, int(count), int(count) - place)
    if not lower <= told <= upper:
        yield run.build_fault(
            f"{name} {told:.0f}",
            f"between {lower:.0f} and {upper:.0f}, the adjacent percentiles",
            name,
        )


def resolve_target_percentile(run: MllogRun, usual: float) -> float:
    """Return the percentile (0-100) that the run requested."""
    told = run.find_number("effective_target_latency_percentile")
    return round(100 * (told if told and 0 < told < 1 else usual), 6)


def find_neighbouring_latencies(run: MllogRun, count: int, rank: int) -> tuple[float, float]:
    """Return the latencies (ns) of the logged percentiles below and above a position in the sorted
    list.
    """
    known = list(iterate_percentile_ranks(run, count))
    lower = max((value for at, value in known if at <= rank), default=0.0)
    upper = min((value for at, value in known if at >= rank), default=float("inf"))
    return lower, upper


def iterate_percentile_ranks(run: MllogRun, count: int) -> Iterator[tuple[int, float]]:
    """Yield positions in the sorted list of latencies, and their values."""
    family = "result_{}_percentile_per_query_latency_ns"
    if run.logged_scenario != "MultiStream":
        family = "result_{}_percentile_latency_ns"
    if run.find_value("requested_use_token_latencies") is True:
        family = "result_first_token_{}_percentile_latency_ns"
    for share in LOGGED_PERCENTILES:
        value = run.find_number(family.format(share))
        if value is not None:
            yield int(count * float(share) / 100), value
