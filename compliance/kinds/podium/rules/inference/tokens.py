"""Check the tokens of generated answers: what LoadGen was asked to measure, its bounds, and how
many tokens there are.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from compliance.kinds.podium.documents.inference import InferenceEntry, LoadGenRun
from compliance.kinds.podium.rules.inference.answers import MAX_SHOWN_ANSWERS
from compliance.kinds.podium.rules.inference.loadgen_draws import (
    MAX_REPLAYED_DRAWS,
    build_draw_plan,
    has_known_draw_order,
    has_loaded_drawn_samples,
)
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite import registry
from suite.audits.tokens import TokenCheck, find_token_contradictions
from suite.files.layout import ACCURACY_LOG, SYSTEM_RECORD, TOKEN_RECORD_FILE
from suite.loadgen.headline import (
    FIRST_TOKEN_KEY,
    OUTPUT_TOKEN_KEY,
    REQUESTED_TOKENS_KEY,
    TOKEN_BOUND_KEYS,
)
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_BYTES
from suite.rounds import MAX_NEW_TOKENS_SETTING
from suite.units import MS_PER_S

RATE_KEYS: Final = {
    Scenario.SERVER: "result_completed_tokens_per_second",
    Scenario.OFFLINE: "result_tokens_per_second",
    Scenario.SINGLE_STREAM: "result_token_throughput_with_loadgen_overhead",
}
ANSWER_RATE_KEYS: Final = {
    Scenario.SERVER: "result_completed_samples_per_sec",
    Scenario.OFFLINE: "result_samples_per_second",
    Scenario.SINGLE_STREAM: "result_qps_with_loadgen_overhead",
}
"""Rates that LoadGen divides by the same span: up to the last query's answer, to the last answer,
and to the last query's issue.
"""
SAME_SAMPLE_KEY: Final = "effective_performance_issue_same"
"""Set in the runs of TEST04, which issue one sample."""
COMPLETED_TOKENS_KEY: Final = RATE_KEYS[Scenario.SERVER]
MAX_PRINTED_ERROR: Final = 3e-5
"""Relative, of a quotient of two numbers that LoadGen prints with six digits."""
MAX_STAMP_ERROR_MS: Final = 2.0
"""Of the milliseconds between two stamps that are cut to whole ones."""
TOTAL_TOKENS_TOLERANCE: Final = 0.02
"""Source: house rule: the same weights answer greedily in both modes, and rounding lengthens some
answers and shortens others.
"""


@rule("tokens.settings", LoadGenRun, About.RULES)
def settings(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen measures tokens if the scenario's row requires it, and Server has the row's bounds of
    the first and of each further token.

    Source: mlcommons/inference, mlperf.conf: use_token_latencies, ttft_latency, tpot_latency.
    Advice: leave the scenario's bounds unchanged.
    """
    if run.rule is None:
        return
    if run.measures_tokens != run.rule.token_latencies:
        yield run.build_fault(
            f"{run.find_value(REQUESTED_TOKENS_KEY)}",
            f"{run.rule.token_latencies}",
            REQUESTED_TOKENS_KEY,
        )
    if run.scenario is not Scenario.SERVER or not run.rule.token_latencies:
        return
    for field, key in TOKEN_BOUND_KEYS.items():
        found, wanted = run.find_value(key), getattr(run.rule, field)
        if wanted is not None and found != wanted:
            yield run.build_fault(f"a bound of {found} ns", f"{wanted} ns", key)


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
        found, bound = run.find_number(key), run.find_number(TOKEN_BOUND_KEYS[field])
        if bound is not None and found is not None and found > bound:
            yield run.build_fault(f"{found:.0f} ns", f"at most {bound:.0f} ns", key)


@rule("tokens.count", LoadGenRun, About.SCORE)
def count(run: LoadGenRun) -> Iterator[Fault]:
    """tokens.npy has a row for each answer that LoadGen counted, each sample as often as LoadGen
    issued it, and the number of tokens gives LoadGen's rate of them.

    Source: house rule; mlcommons/inference, loadgen/results.cc: LoadGen divides tokens and answers
    by one span, so their quotient is exact, however busy the machine: answers but the last one in
    Server and SingleStream, all in Offline.
    Advice: keep tokens.npy and LoadGen's log of one run together: a count does not depend on how
    busy the machine was. Repeat the run if one of them is lost.
    """
    if run.tokens is None or not run.performance or len(run.tokens) >= MAX_QUERY_RECORD_ROWS:
        return
    queries, per_query = (
        run.find_number("result_query_count"),
        run.find_number("generated_samples_per_query"),
    )
    if queries is not None and per_query is not None and len(run.tokens) != queries * per_query:
        yield run.build_fault(
            f"{len(run.tokens)} answers",
            f"{queries * per_query:.0f}, as LoadGen counted",
            file=TOKEN_RECORD_FILE,
        )
        return
    if len(run.tokens) and int(run.tokens.tokens.min()) < 1:
        yield run.build_fault("an answer without tokens", "1 or more", file=TOKEN_RECORD_FILE)
    yield from check_logged_samples(run)
    yield from check_token_rate(run)


@rule("tokens.logged", LoadGenRun, About.SCORE)
def logged(run: LoadGenRun) -> Iterator[Fault]:
    """If LoadGen measures tokens, each line of the accuracy log has its answer's number of tokens
    and first token. Both match the answer, unless servers of an OpenAI-compatible API counted
    differently, which `network.tokens` limits.

    Source: mlcommons/inference, loadgen/logging.cc, AsyncLog::LogAccuracy; compliance/TEST06: first
    tokens and lengths.
    Advice: copy mlperf_log_accuracy.json again from the run; if the counts are missing there too,
    serve again with podium's LoadGen.
    """
    lines = len(run.answers.samples)
    wanted = lines if run.measures_tokens else 0
    if run.answers.counted_lines != wanted:
        yield run.build_fault(
            f"{run.answers.counted_lines} of {lines} answers with a number of tokens",
            f"{wanted}",
            file=ACCURACY_LOG,
        )
    if is_counted_by_servers(run):
        return
    for line in run.answers.wrong_token_lines:
        yield run.build_fault(
            "an answer with other tokens than stated",
            "token_count numbers of 4 bytes, the first as token_data",
            line,
            file=ACCURACY_LOG,
        )


def is_counted_by_servers(run: LoadGenRun) -> bool:
    """Return whether servers of an OpenAI-compatible API counted other tokens than the answers
    have, as the run's record says.
    """
    network = run.record.network if run.record else None
    return bool(network and network.api and network.answers_differing)


@rule("tokens.lengths", LoadGenRun, About.SCORE)
def lengths(run: LoadGenRun) -> Iterator[Fault]:
    """Each answer that a performance run logged has as many tokens as tokens.npy states for an
    answer to its sample, unless servers of an OpenAI-compatible API counted otherwise.

    Source: house rule; mlcommons/inference, compliance/TEST06: token counts agree with lengths.
    Advice: copy tokens.npy and mlperf_log_accuracy.json again from one run; otherwise serve again.
    """
    if run.tokens is None or not run.performance or not run.measures_tokens:
        return
    if len(run.tokens) >= MAX_QUERY_RECORD_ROWS or is_counted_by_servers(run):
        return
    import numpy

    same = numpy.isin(run.tokens.sample, numpy.asarray(run.answers.samples))
    recorded = set(
        zip(run.tokens.sample[same].tolist(), run.tokens.tokens[same].tolist(), strict=True)
    )
    logged = (
        (place, sample, len(run.answers.read_answer(place)) // TOKEN_BYTES)
        for place, sample in enumerate(run.answers.samples)
    )
    for place, sample, tokens in islice(
        (each for each in logged if each[1:] not in recorded), MAX_SHOWN_ANSWERS
    ):
        yield run.build_fault(
            f"{tokens} token{'s' if tokens != 1 else ''} in an answer to sample {sample}",
            f"a number of tokens that {TOKEN_RECORD_FILE} states for this sample",
            run.answers.lines[place],
            file=ACCURACY_LOG,
        )


@rule("tokens.behind_end", LoadGenRun, About.SCORE)
def behind_end(run: LoadGenRun) -> Iterator[Fault]:
    """No logged answer has a token behind the one that ends it: neither ROUGE nor a reader would
    see it, and the tokens per second would count it.

    Source: mlcommons/inference, compliance/TEST06/README.md: the end of an answer; house rule: in
    every log, not in TEST06's alone.
    Advice: end each answer at its end token, and repeat the runs.
    """
    if run.record is None or run.rule is None or not run.measures_tokens:
        return
    ends = registry.list_end_tokens(run.record.system.workload, run.record.system.profile)
    places = range(len(run.answers.samples)) if ends else ()
    padded = (
        place
        for place in places
        if TokenCheck.END in find_token_contradictions(run.answers.read_tokens(place), ends)
    )
    for place in islice(padded, MAX_SHOWN_ANSWERS):
        yield run.build_fault(
            f"tokens behind the end of an answer to sample {run.answers.samples[place]}",
            "an end token at the end alone",
            run.answers.lines[place],
            file=ACCURACY_LOG,
        )


def check_cut_answers(run: LoadGenRun, answers: Mapping[int, bytes]) -> Iterator[Fault]:
    """Yield logged answers of a system in LoadGen's process that are the begin of the accuracy
    run's longer one: the same weights decode greedily, and nothing but a cut ends an answer there.
    """
    if run.record is None or (run.record.network and run.record.network.api):
        return
    cut = (
        place
        for place, sample in enumerate(run.answers.samples)
        if is_answer_cut(run.answers.read_answer(place), answers.get(sample, b""))
    )
    for place in islice(cut, MAX_SHOWN_ANSWERS):
        yield run.build_fault(
            f"the first tokens of the answer to sample {run.answers.samples[place]}",
            "the whole answer, as in the accuracy run",
            run.answers.lines[place],
            file=ACCURACY_LOG,
        )


def is_answer_cut(answer: bytes, whole: bytes) -> bool:
    """Return whether an answer is only the begin of another."""
    return len(answer) < len(whole) and whole.startswith(answer)


@rule("tokens.total", InferenceEntry, About.SCORE)
def total(entry: InferenceEntry) -> Iterator[Fault]:
    """The answers of a performance run have about as many tokens as the accuracy run's answers to
    the same samples, and no answer has more than the run's record allows: none is cut or padded.
    Servers of an OpenAI-compatible API may count differently, which `network.tokens` limits.

    Source: mlcommons/inference, submission-checker.py: the generated length of an accuracy run is
    held to the reference's; house rule: a performance run's to the accuracy run's, within 2 %.
    Advice: serve both modes with the same limit of tokens, with one command.
    """
    if entry.accuracy is None:
        return
    for run in entry.performance:
        yield from check_longest_answer(run)
        yield from check_cut_answers(run, entry.accuracy.answers)
        if is_counted_by_servers(run):
            continue
        expected = count_accuracy_tokens(run, entry.accuracy.answers)
        found = run.tokens.total if run.tokens else None
        if expected is None or found is None:
            continue
        if abs(found - expected) > TOTAL_TOKENS_TOLERANCE * expected:
            yield run.build_fault(
                f"{found:,} tokens",
                f"about {expected:,}, as the accuracy run's answers to the same samples have",
                file=TOKEN_RECORD_FILE,
            )


def check_longest_answer(run: LoadGenRun) -> Iterator[Fault]:
    """Yield an answer in tokens.npy that is longer than the run's setting lets any be."""
    most = run.record.settings.get(MAX_NEW_TOKENS_SETTING) if run.record else None
    if run.tokens is None or not len(run.tokens) or not isinstance(most, int):
        return
    longest = int(run.tokens.tokens.max())
    if longest > most:
        yield run.build_fault(
            f"an answer of {longest:,} tokens",
            f"at most {most}, {MAX_NEW_TOKENS_SETTING} in {SYSTEM_RECORD}",
            file=TOKEN_RECORD_FILE,
        )


def count_accuracy_tokens(run: LoadGenRun, answers: Mapping[int, bytes]) -> int | None:
    """Return the tokens of the accuracy run's answers to a run's samples, each as often as it was
    issued; None without a record of tokens, or if an answer is missing, which other rules find.
    """
    import numpy

    if run.tokens is None:
        return None
    samples, counts = (
        each.tolist() for each in numpy.unique(run.tokens.sample, return_counts=True)
    )
    if not all(sample in answers for sample in samples):
        return None
    lengths = (len(answers[sample]) // TOKEN_BYTES for sample in samples)
    return int(sum(length * count for length, count in zip(lengths, counts, strict=True)))


def check_logged_samples(run: LoadGenRun) -> Iterator[Fault]:
    """Yield samples that tokens.npy has more or less often than LoadGen's seeds issue them."""
    import numpy

    plan = build_draw_plan(run)
    if plan is None or run.tokens is None or len(run.tokens) > MAX_REPLAYED_DRAWS:
        return
    if run.find_value(SAME_SAMPLE_KEY) is True:  # nothing is drawn: audit.settings says which it is
        return
    if not (has_known_draw_order(run) and has_loaded_drawn_samples(run, plan)):
        return
    issued = numpy.fromiter(
        islice(plan.replay_issued_samples(plan.replay_loaded_sets()), len(run.tokens)), "int64"
    )
    if len(issued) != len(run.tokens):
        return
    answered = numpy.sort(run.tokens.sample)
    other = int((answered != numpy.sort(issued)).sum())
    if other:
        yield run.build_fault(
            f"answers to other samples than LoadGen issued, in {other} of {len(answered)} places"
            " of their sorted list",
            "each sample as often as sample_index_rng_seed draws it",
            file=TOKEN_RECORD_FILE,
        )


def check_token_rate(run: LoadGenRun) -> Iterator[Fault]:
    """Yield a rate of LoadGen's that the recorded tokens and its rate of answers contradict."""
    if run.tokens is None or run.scenario is None or not len(run.tokens):
        return
    tokens, answers = int(run.tokens.tokens.sum()), len(run.tokens)
    divided = answers if run.scenario is Scenario.OFFLINE else answers - 1
    rate = run.find_number(RATE_KEYS.get(run.scenario, ""))
    answers_per_s = run.find_number(ANSWER_RATE_KEYS.get(run.scenario, ""))
    if rate is None or answers_per_s is None or not divided:
        return
    wanted = answers_per_s * tokens / divided
    if not math.isclose(rate, wanted, rel_tol=MAX_PRINTED_ERROR):
        yield run.build_fault(
            f"{rate:.6g} tokens/s", f"{wanted:.6g}, from tokens.npy", RATE_KEYS[run.scenario]
        )
    yield from check_completed_rate(run, tokens)


def check_completed_rate(run: LoadGenRun, tokens: int) -> Iterator[Fault]:
    """Yield SingleStream's rate up to its last answer if the tokens do not give it: the run ends
    with that answer, by LoadGen's stamps, which come from the same clock.
    """
    rate, wall_ms = run.find_number(COMPLETED_TOKENS_KEY), run.wall_ms
    if run.scenario is not Scenario.SINGLE_STREAM or not rate or wall_ms is None:
        return
    taken_ms = tokens * MS_PER_S / rate
    if abs(taken_ms - wall_ms) > MAX_STAMP_ERROR_MS + MAX_PRINTED_ERROR * taken_ms:
        yield run.build_fault(
            f"{rate:.6g} tokens/s",
            f"{tokens * MS_PER_S / max(wall_ms, 1.0):.6g}, {tokens:,} tokens from power_begin to"
            " power_end",
            COMPLETED_TOKENS_KEY,
        )
