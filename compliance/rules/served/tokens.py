"""What language models' runs tell: latencies of tokens, issuing all samples equally often, and
early stopping of every benchmark.
"""

import re
from collections.abc import Iterator
from typing import Final

from compliance.documents.inference.served import LaterEntry, LaterRun
from compliance.rules import rule
from compliance.rules.served.run import read
from compliance.verdict import Fault, Severity
from suite.loadgen.early_stopping import estimate, server_passes

FIRST_TOKEN: Final = "result_first_token_99.00_percentile_latency_ns"
PER_TOKEN: Final = "result_time_per_output_token_99.00_percentile_ns"
RATES: Final = {
    "Server": ("result_completed_tokens_per_second", "result_inferred_completed_tokens_per_second"),
    "Offline": ("result_tokens_per_second", "result_inferred_tokens_per_second"),
}
"""Scenario -> tokens per second: counted, or taken from a constant number of tokens per sample."""
LENGTHS: Final = {
    "result_tokens_per_second": "result_samples_per_second",
    "result_completed_tokens_per_second": "result_completed_samples_per_sec",
}
"""Rate of tokens -> rate of the samples that have them."""
OTHER: Final = 1.5
NEAR: Final = 0.1
"""House rule: answers of another length by this factor are other answers; in published results both
runs agree within 0.3 %.
"""
LONGER: Final = 1.25
"""House rule: how many ends of answers a submitter counts among their tokens is not laid down."""
STOPPED: Final = ("Server", "SingleStream", "MultiStream")
PROVEN: Final = {
    "SingleStream": ("early_stopping_latency_ss", 0.9),
    "MultiStream": ("early_stopping_latency_ms", 0.99),
}
"""Scenario -> event of the estimate, and the percentile (0-1) that it proves, where the log does
not tell.
"""
SAID: Final = r"Early stopping {}th percentile estimate: (\d{{1,20}})"
SHARES: Final = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")


@rule("later.tokens", LaterRun)
def tokens(run: LaterRun) -> Iterator[Fault]:
    """LoadGen measures the latencies of a language model's tokens: time to first token and time per
    output token meet their bounds.

    Source: submission-checker.py, extra_check_llm and LLM_LATENCY_LIMITS; since v6.0
    performance_check.py, llm_check.
    Advice: use the round's mlperf.conf; lower the rate and repeat the run.
    """
    if (
        not run.performance
        or not run.closed
        or not read(run)
        or run.model is None
        or not run.model.token_latencies
    ):
        return
    if run.value("requested_use_token_latencies") is not True:
        yield run.fault(
            f"use_token_latencies {run.value('requested_use_token_latencies')}",
            "true",
            "requested_use_token_latencies",
        )
    if run.logged != "Server":
        return
    scenario = run.scenario or run.logged
    for key, bounds in (
        (FIRST_TOKEN, run.model.first_token_ns),
        (PER_TOKEN, run.model.per_token_ns),
    ):
        told, bound = run.number(key), bounds.get(scenario)
        if bound is not None and (told is None or not 0 < told < bound):
            yield run.fault(f"{key} {told}", f"above 0 and below {bound}", key)


@rule("later.token_bounds", LaterRun)
def token_bounds(run: LaterRun) -> Iterator[Fault]:
    """LoadGen is given the bounds of the benchmark for the time to first token and the time per
    output token.

    Source: mlcommons/inference, mlperf.conf of the round: ttft_latency and tpot_latency;
    submission-checker.py, LLM_LATENCY_LIMITS.
    Advice: use the round's mlperf.conf and repeat the run.
    """
    if not run.performance or not run.closed or run.model is None or run.logged != "Server":
        return
    scenario = run.scenario or run.logged
    given = (
        ("requested_server_ttft_latency", run.model.first_token_ns),
        ("requested_server_tpot_latency", run.model.per_token_ns),
    )
    for key, bounds in given:
        told, bound = run.number(key), bounds.get(scenario)
        if bound is not None and told is not None and told > bound:
            yield run.fault(f"{key} {told:g}", f"at most {bound}", key)


@rule("later.token_count", LaterRun)
def token_count(run: LaterRun) -> Iterator[Fault]:
    """A run that measures tokens produced some.

    Source: submission-checker.py, RESULT_FIELD_BENCHMARK_OVERWRITE; mlcommons/inference,
    loadgen/results.cc: tokens per second.
    Advice: report the number of tokens of each answer to LoadGen (QuerySampleResponse.n_tokens),
    and repeat the run.
    """
    if (
        not run.performance
        or not run.closed
        or run.value("requested_use_token_latencies") is not True
    ):
        return
    for key in (key for keys in RATES.values() for key in keys):
        if key in run.index and (run.number(key) or 0) <= 0:
            yield run.fault(f"{key} {run.value(key)}", "above 0", key)
    needed = RATES.get(run.logged or "", ())
    if (
        needed
        and run.round.rules.server_result == "completed"
        and not any(key in run.index for key in needed)
    ):
        yield run.fault(f"no {needed[0]}", "tokens per second")


@rule("later.token_rate", LaterEntry)
def token_rate(entry: LaterEntry) -> Iterator[Fault]:
    """The answers of a performance run are as long as those of the accuracy run: tokens per second
    over samples per second.

    Source: submission-checker.py, TOKENS_PER_SAMPLE: answers of the accuracy run within a tenth of
    the reference's; house rule: timed ones are no longer.
    Advice: report to LoadGen the tokens that each answer has (QuerySampleResponse.n_tokens), and
    file the logs as they were written.
    """
    wanted, most = entry.tokens, entry.model.most_tokens if entry.model else None
    for run in entry.performance if entry.division == "closed" else ():
        key, length = length_of(run)
        if not length:
            continue
        if wanted and not 1 / OTHER < length / wanted < OTHER:
            yield run.fault(
                f"{length:.1f} tokens a sample", f"{wanted:.1f}, as accuracy.txt has it", key
            )
        elif wanted and abs(length / wanted - 1) > NEAR:
            yield run.fault(
                f"{length:.1f} tokens a sample",
                f"about {wanted:.1f}, as accuracy.txt has it",
                key,
                Severity.WARNING,
            )
        elif not wanted and most and length > most * LONGER:
            yield run.fault(
                f"{length:.1f} tokens a sample", f"at most {most}, which answers are cut to", key
            )
        elif not wanted and entry.characters and length > entry.characters:
            yield run.fault(
                f"{length:.1f} tokens a sample",
                f"fewer than its {entry.characters:.1f} characters in accuracy.txt",
                key,
            )


def length_of(run: LaterRun) -> tuple[str, float]:
    """Return the tokens of a mean answer, with the event of their rate; 0 if LoadGen did not count
    them.
    """
    pairs = ((key, run.number(key), run.number(other)) for key, other in LENGTHS.items())
    return next(
        ((key, rate / samples) for key, rate, samples in pairs if rate and samples), ("", 0.0)
    )


@rule("later.equal_issue", LaterRun)
def equal_issue(run: LaterRun) -> Iterator[Fault]:
    """Benchmarks whose samples differ much in length issue each sample equally often.

    Source: mlcommons/inference, mlperf.conf of the round: sample_concatenate_permutation;
    submission-checker.py, requires_equal_issue.
    Advice: use the round's mlperf.conf and repeat the run.
    """
    key = "effective_sample_concatenate_permutation"
    if (
        not run.performance
        or not run.closed
        or not read(run)
        or run.model is None
        or not run.model.equal_issue
        or run.scenario in run.model.equal_issue_except
    ):
        return
    if run.value(key) is not True:
        yield run.fault(f"sample_concatenate_permutation {run.value(key)}", "true", key)
        return
    count, each, total = (
        run.number(name)
        for name in (
            "generated_query_count",
            "generated_samples_per_query",
            "effective_performance_sample_count",
        )
    )
    if run.logged in ("Server", "Offline") and count and each and total and (count * each) % total:
        yield run.fault(
            f"{count * each:.0f} samples issued",
            f"a multiple of the {total:.0f} in memory, since each is issued equally often",
            key,
        )


@rule("later.early_stopping", LaterRun)
def early_stopping(run: LaterRun) -> Iterator[Fault]:
    """Early stopping says that enough queries were processed; its estimate of a latency lies
    between the percentiles around it.

    Source: submission-checker.py, uses_early_stopping; mlcommons/inference,
    loadgen/early_stopping.cc and results.cc, EarlyStopping.
    Advice: run longer, or lower the rate; submit LoadGen's detail log unmodified.
    """
    if not run.performance or not run.round.rules.early_stopping or run.logged not in STOPPED:
        return
    if run.value("early_stopping_met") is not True:
        yield run.fault(
            f"early_stopping_met {run.value('early_stopping_met')}", "true", "early_stopping_met"
        )
    yield from proven(run)
    over, count = run.number("result_overlatency_query_count"), run.number("result_query_count")
    measured = run.value("requested_use_token_latencies") is not True and run.logged == "Server"
    if (
        measured
        and over is not None
        and count
        and not server_passes(int(count), int(over), percent(run, 0.99))
    ):
        yield run.fault(
            f"{over:.0f} of {count:.0f} queries over the bound",
            "so few that the percentile is proven",
            "result_overlatency_query_count",
        )


def proven(run: LaterRun) -> Iterator[Fault]:
    """Hold the estimate against the percentiles between whose places it lies."""
    name, usual = PROVEN.get(run.logged or "", ("", 0.0))
    told, count = run.number(name), run.number("result_query_count")
    if not name or not count:
        return
    percentile = percent(run, usual)
    place = estimate(int(count), percentile).place_from_top
    if place is None or told is None or told <= 0:
        yield run.fault(
            f"{name} {run.value(name)} after {count:.0f} queries",
            "an estimate, and enough queries for it",
            name,
        )
        return
    shown = next(
        iter(re.findall(SAID.format(percentile), str(run.value("early_stopping_result")))), None
    )
    if shown is not None and int(shown) != told:
        yield run.fault(f"{name} {told:.0f}", f"{shown}, as early_stopping_result says", name)
    lower, upper = around(run, int(count), int(count) - place)
    if not lower <= told <= upper:
        yield run.fault(
            f"{name} {told:.0f}",
            f"between {lower:.0f} and {upper:.0f}, the percentiles around it",
            name,
        )


def percent(run: LaterRun, usual: float) -> float:
    """Return the percentile (0-100) that the run was asked for."""
    told = run.number("effective_target_latency_percentile")
    return round(100 * (told if told and 0 < told < 1 else usual), 6)


def around(run: LaterRun, count: int, rank: int) -> tuple[float, float]:
    """Return the latencies (ns) of the logged percentiles below and above a place in the sorted
    list.
    """
    known = list(ladder(run, count))
    lower = max((value for at, value in known if at <= rank), default=0.0)
    upper = min((value for at, value in known if at >= rank), default=float("inf"))
    return lower, upper


def ladder(run: LaterRun, count: int) -> Iterator[tuple[int, float]]:
    """Yield places in the sorted list of latencies, and what stands there."""
    family = (
        "result_{}_percentile_per_query_latency_ns"
        if run.logged == "MultiStream"
        else "result_{}_percentile_latency_ns"
    )
    family = (
        "result_first_token_{}_percentile_latency_ns"
        if run.value("requested_use_token_latencies") is True
        else family
    )
    for share in SHARES:
        value = run.number(family.format(share))
        if value is not None:
            yield int(count * float(share) / 100), value
