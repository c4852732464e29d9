"""Check the tokens of generated answers: what LoadGen was asked to measure, its bounds, and the
record of first and last tokens.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

from compliance import within_run
from compliance.documents.podium.inference import REQUESTED_TOKENS_KEY, LoadGenRun
from compliance.rules import rule
from compliance.rules.podium.inference.queries import recompute_due_times
from compliance.verdict import About, Fault, Severity
from suite.files.layout import ACCURACY_LOG, TOKEN_RECORD_FILE
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

BOUND_KEYS: Final = {
    "first_token_ns": "requested_server_ttft_latency",
    "per_token_ns": "requested_server_tpot_latency",
}
"""Bound in the row -> LoadGen's setting. Source: mlcommons/inference, loadgen/test_settings.cc."""
RATE_KEYS: Final = {
    Scenario.SERVER: "result_completed_tokens_per_second",
    Scenario.OFFLINE: "result_tokens_per_second",
}
COMPARED_PERCENTILES: Final = (50.0, 90.0)
TOKEN_TIME_TOLERANCE: Final = 0.1
TOKEN_TIME_TOLERANCE_NS: Final = 2e6
"""LoadGen takes its own stamps some microseconds later, and on a busy host a thread may wait."""
RATE_TOLERANCE: Final = 0.02


@rule("tokens.settings", LoadGenRun, About.RULES)
def settings(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen measures tokens where the scenario's row says so, and Server with the row's bounds of
    the first and of each further token.

    Source: mlcommons/inference, mlperf.conf: use_token_latencies, ttft_latency, tpot_latency.
    Advice: leave the scenario's bounds unchanged.
    """
    if run.rule is None:
        return
    if run.measures_tokens != run.rule.token_latencies:
        yield run.build_detail_fault(
            REQUESTED_TOKENS_KEY,
            f"{run.find_value(REQUESTED_TOKENS_KEY)}",
            f"{run.rule.token_latencies}",
        )
    if run.scenario is not Scenario.SERVER or not run.rule.token_latencies:
        return
    for field, key in BOUND_KEYS.items():
        found, wanted = run.find_value(key), getattr(run.rule, field)
        if wanted is not None and found != wanted:
            yield run.build_detail_fault(key, f"a bound of {found} ns", f"{wanted} ns")


@rule("tokens.bounds", LoadGenRun, About.RULES)
def bounds(run: LoadGenRun) -> Iterator[Fault]:
    """The time to the first token and the time per further token, at the scenario's percentile, are
    within the bounds that LoadGen was given, which `tokens.settings` holds against the row's.

    Source: inference_rules.adoc v5.1, Scenarios, table: TTFT and TPOT; mlcommons/inference,
    loadgen/results.cc.
    Advice: lower server.target_qps until both bounds are met.
    """
    if not run.performance or run.rule is None or run.scenario is not Scenario.SERVER:
        return
    for form, field in ((FIRST_TOKEN_KEY, "first_token_ns"), (OUTPUT_TOKEN_KEY, "per_token_ns")):
        key = form.format(run.rule.percentile)
        found, bound = run.find_number(key), run.find_number(BOUND_KEYS[field])
        if bound is not None and found is not None and found > bound:
            yield run.build_detail_fault(key, f"{found:.0f} ns", f"at most {bound:.0f} ns")


@rule("tokens.count", LoadGenRun, About.SCORE)
def count(run: LoadGenRun) -> Iterator[Fault]:
    """tokens.npy has a row for each answer that LoadGen counted, and the number of tokens gives
    LoadGen's rate of them.

    Source: house rule; mlcommons/inference, loadgen/results.cc: tokens of all answers, divided by
    the time of the run.
    Advice: restore the file as the run wrote it, or repeat the run.
    """
    if run.tokens is None or not run.performance or len(run.tokens) >= MAX_QUERY_RECORD_ROWS:
        return
    queries, per_query = (
        run.find_number("result_query_count"),
        run.find_number("generated_samples_per_query"),
    )
    if queries is not None and per_query is not None and len(run.tokens) != queries * per_query:
        yield run.build_fault(
            TOKEN_RECORD_FILE,
            f"{len(run.tokens)} answers",
            f"{queries * per_query:.0f}, as LoadGen counted",
        )
        return
    if len(run.tokens) and int(run.tokens.tokens.min()) < 1:
        yield run.build_fault(TOKEN_RECORD_FILE, "an answer without tokens", "1 or more")
    yield from check_token_rate(run)


@rule("tokens.logged", LoadGenRun, About.SCORE)
def logged(run: LoadGenRun) -> Iterator[Fault]:
    """Where LoadGen measures tokens, each line of the accuracy log states how many tokens its
    answer has, and the first one; both are those of the answer, unless servers of an
    OpenAI-compatible API counted otherwise, which `network.tokens` limits.

    Source: mlcommons/inference, loadgen/logging.cc, AsyncLog::LogAccuracy; compliance/TEST06: first
    tokens and lengths.
    Advice: submit LoadGen's file unmodified.
    """
    lines = len(run.answers.samples)
    wanted = lines if run.measures_tokens else 0
    if run.answers.counted_lines != wanted:
        yield run.build_fault(
            ACCURACY_LOG,
            f"{run.answers.counted_lines} of {lines} answers with a number of tokens",
            f"{wanted}",
        )
    network = run.record.network if run.record else None
    if network and network.api and network.answers_differing:
        return
    for line in run.answers.wrong_token_lines:
        yield run.build_fault(
            ACCURACY_LOG,
            "an answer with other tokens than stated",
            "token_count numbers of 4 bytes, the first as token_data",
            line,
        )


def check_token_rate(run: LoadGenRun) -> Iterator[Fault]:
    """Yield a rate of LoadGen's that the recorded tokens and its rate of answers contradict: both
    are divided by the same time.
    """
    if run.tokens is None or run.scenario is None or not len(run.tokens):
        return
    rate = run.find_number(RATE_KEYS.get(run.scenario, ""))
    answers = run.find_number(
        "result_completed_samples_per_sec"
        if run.scenario is Scenario.SERVER
        else "result_samples_per_second"
    )
    if rate is None or answers is None:
        return
    wanted = answers * int(run.tokens.tokens.sum()) / len(run.tokens)
    if not math.isclose(rate, wanted, rel_tol=RATE_TOLERANCE):
        yield run.build_detail_fault(
            RATE_KEYS[run.scenario], f"{rate:.6g} tokens/s", f"{wanted:.6g}, from tokens.npy"
        )


@rule("tokens.times", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def times(run: LoadGenRun) -> Iterator[Fault]:
    """In tokens.npy, no answer ends before it begins, and the times to the first token and per
    further token match those that LoadGen measured; Server's first ones start when a query was due.

    Source: mlcommons/inference, loadgen/results.cc: (last - first) / (tokens - 1); house rule:
    within a tenth, or 2 ms.
    Advice: restore the file as the run wrote it.
    """
    if run.tokens is None or not run.performance or not len(run.tokens):
        return
    if bool((run.tokens.last_ns < run.tokens.first_ns).any()):
        yield run.build_fault(
            TOKEN_RECORD_FILE, "answers that end before they begin", "first tokens before last ones"
        )
        return
    yield from compare_token_percentiles(run, OUTPUT_TOKEN_KEY, compute_per_token_ns(run))
    began_ns = find_query_begins_ns(run)
    if began_ns is not None and len(began_ns) == len(run.tokens):
        yield from compare_token_percentiles(run, FIRST_TOKEN_KEY, run.tokens.first_ns - began_ns)


def find_query_begins_ns(run: LoadGenRun) -> Any:
    """Return from when LoadGen counts the time to each first token: in SingleStream from the issue
    of a query, in Server from when it was due; None in Offline, or if that cannot be recomputed.
    """
    if run.scenario is Scenario.SERVER:
        return recompute_due_times(run)
    return (
        run.queries.issued_ns
        if run.queries is not None and run.scenario is Scenario.SINGLE_STREAM
        else None
    )


def compute_per_token_ns(run: LoadGenRun) -> Any:
    """Return the time per further token of each answer that has several."""
    import numpy

    assert run.tokens is not None
    several = numpy.asarray(run.tokens.tokens) > 1
    took = numpy.asarray(run.tokens.last_ns - run.tokens.first_ns)[several]
    return took // (numpy.asarray(run.tokens.tokens)[several] - 1)


def compare_token_percentiles(run: LoadGenRun, form: str, found: Any) -> Iterator[Fault]:
    """Yield percentiles of LoadGen's that the record contradicts."""
    import numpy

    if not len(found):
        return
    zero = numpy.zeros_like(found)
    for percentile, value in zip(
        COMPARED_PERCENTILES,
        within_run.compute_percentiles_ns(zero, found, COMPARED_PERCENTILES),
        strict=True,
    ):
        logged = run.find_number(form.format(percentile))
        if logged is not None and abs(value - logged) > max(
            TOKEN_TIME_TOLERANCE_NS, TOKEN_TIME_TOLERANCE * logged
        ):
            yield run.build_fault(
                TOKEN_RECORD_FILE,
                f"{form.format(percentile)} {value / NS_PER_MS:.3f} ms",
                f"about {logged / NS_PER_MS:.3f} ms, as LoadGen measured",
            )
