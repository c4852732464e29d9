"""Check curves of podium's: every figure is recomputed from the tokens of its LoadGen run, which
the rules about LoadGen runs judge too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, Final

from compliance.documents.podium.curve_study import CurveFile, CurveRun
from compliance.rules import rule
from compliance.rules.podium.inference.answers import MAX_SHOWN_ANSWERS, is_same_model_answer
from compliance.verdict import About, Fault
from suite import registry
from suite.files.layout import (
    ACCURACY_LOG,
    QUERY_RECORD_FILE,
    START_RECORD_FILE,
    TOKEN_RECORD_FILE,
    is_inside_folder,
)
from suite.studies.concurrency_curve import (
    CURVE_NOTE,
    CURVE_ROUND,
    DURATION_SETTING,
    LOADGEN_TOKEN_RATE_KEY,
    LOCAL_CONCURRENCY_SETTING,
    MAX_TOKEN_RATE_GAP,
    REMOTE_CONCURRENCY_SETTING,
    compute_curve_figures,
    count_most_in_flight,
    divide_into_regions,
    find_curve_region,
)
from suite.studies.rates import RUN_STAMP_FIELDS, VALID_VERDICT
from suite.units import MS_PER_S, NS_PER_MS

CURVE_FIGURE_TOLERANCE: Final = 1e-9
"""Tolerance between figures and their recomputed values: the same arithmetic on the same numbers.
"""

MAX_IDLE_SHARE: Final = 0.02
"""Of the requests, not in flight on average."""
IDLE_NS: Final = 150_000
LATE_NS: Final = 500_000
WAIT_PER_REQUEST_NS: Final = 5_000
"""How long a prompt may wait for its place once an answer has ended: on average, and at most."""
MAX_LATE_SHARE: Final = 0.15
STALLED_SHARE: Final = 0.01
"""Of the prompts, that wait longest, and count as stalls of the machine. In twenty real points
(1 to 8 requests in flight, in this process and towards podium serve, eight of them beside twice as
many busy programs as cores) prompts waited 0.01 to 0.05 ms in the median, and at most 3.2 % of them
longer than 0.5 ms: up to 0.23 s. At most 0.8 % of the requests were not in flight.
"""


@rule("curve.points", CurveFile, About.SCORE)
def points(study: CurveFile) -> Iterator[Fault]:
    """Each point of a curve is a separate VALID LoadGen run of one system, with as many requests in
    flight as the table says; each run has a point, and the table states that it is not a result.

    Source: docs/STUDIES.md.
    Advice: run podium curve again: it measures missing points and rewrites the table.
    """
    whole = study.study
    if whole.note != CURVE_NOTE:
        yield study.build_fault(f"note {whole.note!r}", repr(CURVE_NOTE))
    named = [each.folder for each in whole.points]
    for folder in sorted({each for each in named if named.count(each) > 1}):
        yield study.build_fault(f"{named.count(folder)} points for the run {folder!r}", "one")
    for folder in sorted(each for each in named if not each or not is_inside_folder(each)):
        yield study.build_fault(f"a point for {folder!r}", "a folder of the study")
    for folder in sorted(set(study.folders) - set(named)):
        yield study.build_fault(
            f"the run {folder!r} in the study's folder", "only the runs in the table"
        )
    measured = tuple(each.concurrency for each in whole.points)
    if measured != tuple(sorted(set(measured))) or not set(measured) <= set(whole.asked):
        yield study.build_fault(
            f"points with {format_numbers(measured)} in flight",
            f"different rising numbers of {format_numbers(whole.asked)}",
        )
    if whole.machine is None:
        yield study.build_fault("no machine", "the description of the machine that was measured")
    if whole.finished != (set(measured) == set(whole.asked)):
        yield study.build_fault(f"finished {whole.finished}", "true once all points are there")
    for run in study.runs:
        yield from check_curve_run(study, run)


def format_numbers(numbers: Sequence[int]) -> str:
    """Format numbers of requests."""
    return ", ".join(map(str, numbers)) or "none"


def check_curve_run(study: CurveFile, run: CurveRun) -> Iterator[Fault]:
    """Yield differences between a run's record and the table."""
    record = run.run.record
    if record is None:
        return
    whole, row = study.study, run.table_row
    name = REMOTE_CONCURRENCY_SETTING if whole.endpoints else LOCAL_CONCURRENCY_SETTING
    wanted: dict[str, Any] = {each: getattr(whole.stamps, each) for each in RUN_STAMP_FIELDS}
    wanted["verdict"] = VALID_VERDICT
    found: dict[str, Any] = {each: getattr(record, each) for each in wanted}
    wanted[name], found[name] = row.concurrency, record.settings.get(name)
    network = record.network
    wanted["endpoints"], found["endpoints"] = whole.endpoints, network.endpoints if network else ()
    wanted["tokenizer"], found["tokenizer"] = (
        whole.tokenizer_sha256,
        network.tokenizer if network else "",
    )
    wanted[DURATION_SETTING] = int(whole.seconds * MS_PER_S)  # as the harness cuts it
    found[DURATION_SETTING] = record.settings.get(DURATION_SETTING)
    for key, value in wanted.items():
        if found[key] != value:
            yield run.build_fault(f"{key} {found[key]!r}", f"{value!r}, as in the table")


@rule("curve.loop", CurveFile, About.SCORE)
def loop(study: CurveFile) -> Iterator[Fault]:
    """At no time are more answers in progress than the point has requests in flight, and as many
    are until the last prompt begins: a prompt begins as soon as an answer ends. No prompt begins
    before LoadGen issues it, and no first token comes before its prompt begins.

    Source: house rule: harness/serving/loadgen/generation.py; both records have one clock. At most
    2 % of the requests are not in flight, or 0.15 ms for each prompt, and 0.005 ms more for each
    request in flight; at most 15 % of the prompts begin more than 0.5 ms late.
    Advice: restore starts.npy and tokens.npy as the run wrote them, or repeat the curve.
    """
    for run in study.runs:
        starts, tokens, queries = run.starts_ns, run.run.tokens, run.run.queries
        if tokens is None or starts is None or len(starts) != len(tokens):
            yield run.build_fault(
                f"{0 if starts is None else len(starts)} starts,"
                f" {0 if tokens is None else len(tokens)} answers",
                "both records, with a row for each answer",
                START_RECORD_FILE,
            )
            continue
        most = count_most_in_flight(starts, tokens.last_ns)
        if most > run.table_row.concurrency:
            yield run.build_fault(
                f"{most} answers in progress at once",
                f"at most {run.table_row.concurrency}",
                START_RECORD_FILE,
            )
        yield from check_closed_loop(run, starts, tokens.last_ns)
        if bool((tokens.first_ns < starts).any()):
            yield run.build_fault(
                "a first token before its prompt", "prompts before tokens", START_RECORD_FILE
            )
        if queries is not None and len(queries) and int(starts.min()) < queries.issued_ns.min():
            yield run.build_fault(
                "a prompt that begins before LoadGen's query", "after it", START_RECORD_FILE
            )


def check_closed_loop(run: CurveRun, starts: Any, ends: Any) -> Iterator[Fault]:
    """Yield a loop with fewer requests in flight than the table says, until the last prompt begins:
    its latencies would be those of a smaller load.
    """
    import numpy

    concurrency = run.table_row.concurrency
    if len(starts) <= concurrency:
        return
    begun, ended = numpy.sort(starts), numpy.sort(ends)
    span_ns = max(int(begun[-1] - begun[0]), 1)
    waits_ns = numpy.sort(begun[concurrency:] - ended[: len(begun) - concurrency])
    stalled = math.ceil(STALLED_SHARE * len(waits_ns))
    idle = int(waits_ns[: len(waits_ns) - stalled].sum()) / span_ns
    allowed_ns = IDLE_NS + concurrency * WAIT_PER_REQUEST_NS
    most_idle = max(MAX_IDLE_SHARE * concurrency, len(waits_ns) * allowed_ns / span_ns)
    late_ns = LATE_NS + concurrency * WAIT_PER_REQUEST_NS
    late = int((waits_ns > late_ns).sum())
    if idle > most_idle:
        yield run.build_fault(
            f"{concurrency - idle:.2f} answers in progress on average, until the last prompt began",
            f"{concurrency}, or at least {concurrency - most_idle:.2f}",
            START_RECORD_FILE,
        )
    elif late > math.ceil(MAX_LATE_SHARE * len(waits_ns)):
        yield run.build_fault(
            f"{late} of {len(waits_ns)} prompts more than {late_ns / NS_PER_MS:.2f} ms behind the"
            " end that made room for them",
            f"at most {MAX_LATE_SHARE:.0%} of them",
            START_RECORD_FILE,
        )


@rule("curve.steps", CurveFile, About.SCORE)
def steps(study: CurveFile) -> Iterator[Fault]:
    """In this process a step generates one token for each answer in progress, so that the number of
    an answer's last step and its number of tokens give the number of its first: the first token
    comes behind all answers that ended in earlier steps, and before all that ended in later ones.

    Source: house rule: suite/workload.py, TokenGenerator; harness/serving/loadgen/generation.py
    numbers the steps in queries.npy. All 51,327 answers of twelve real points keep it.
    Advice: restore tokens.npy and queries.npy as the run wrote them, or repeat the curve.
    """
    if study.study.endpoints:
        return  # how servers generate is not known
    for run in study.runs:
        tokens, queries = run.run.tokens, run.run.queries
        if tokens is None or queries is None or not 0 < len(tokens) == len(queries):
            continue
        if int(tokens.tokens.min()) < 1:
            continue  # tokens.count finds it
        other = count_misplaced_first_tokens(
            tokens.first_ns, tokens.tokens, queries.done_ns, queries.batch
        )
        if other:
            yield run.build_fault(
                f"the first tokens of {other} of {len(tokens)} answers between other ends than"
                f" their steps, by {QUERY_RECORD_FILE} and their numbers of tokens",
                "first tokens behind the ends of earlier steps, and before those of later ones",
                TOKEN_RECORD_FILE,
            )


def count_misplaced_first_tokens(first_ns: Any, tokens: Any, ends_ns: Any, last_steps: Any) -> int:
    """Count answers whose first token came before an end of an earlier step than its own, or behind
    one of the same or a later step.

    Args:
        first_ns: array (answers,): when the first token came.
        tokens: array (answers,): how many there are.
        ends_ns: array (answers,): when the answer ended, by the same clock.
        last_steps: array (answers,): number of the step in which it ended.
    """
    import numpy

    last_steps = last_steps.astype("int64")
    first_steps = last_steps - (tokens - 1)
    order = numpy.argsort(last_steps, kind="stable")
    place = numpy.searchsorted(last_steps[order], first_steps)
    latest_ns = numpy.maximum.accumulate(ends_ns[order])
    earliest_ns = numpy.minimum.accumulate(ends_ns[order][::-1])[::-1]
    has_earlier = place > 0
    too_early = has_earlier & (first_ns <= latest_ns[place - has_earlier])
    return int((too_early | (first_ns > earliest_ns[place]) | (first_steps < 0)).sum())


@rule("curve.answers", CurveFile, About.QUALITY)
def answers(study: CurveFile) -> Iterator[Fault]:
    """All points give the same answers: where two of them logged an answer to one sample, it is the
    same byte for byte, or within the workload's tolerance for one model.

    Source: house rule, as answers.same; whether the answers are accurate, no run of a curve says.
    Advice: serve one model at all points; if answers depend on the batch, remove that dependence.
    """
    known: dict[int, tuple[str, bytes]] = {}
    for run in study.runs:
        yield from islice(check_point_answers(run, known), MAX_SHOWN_ANSWERS)


def check_point_answers(run: CurveRun, known: dict[int, tuple[str, bytes]]) -> Iterator[Fault]:
    """Yield answers of a point that differ from those of earlier ones: sample -> folder and answer
    of the first point that logged it, which is extended.
    """
    logged = run.run.answers
    for place, sample in enumerate(logged.samples):
        found = logged.read_answer(place)
        folder, wanted = known.setdefault(sample, (run.table_row.folder, found))
        if not is_same_model_answer(run.run, found, wanted):
            fault = run.build_fault(
                f"a different answer to sample {sample}", f"the answer of {folder}", ACCURACY_LOG
            )
            yield replace(fault, line=logged.lines[place])


@rule("curve.figures", CurveFile, About.SCORE)
def figures(study: CurveFile) -> Iterator[Fault]:
    """Every figure of a point follows from its records of tokens and starts, the regions from the
    concurrencies that were asked for, and LoadGen's own tokens/s are within 1 % of the record's.

    Source: suite/studies/concurrency_curve.py; Endpoints rules, 4.1 and 5.5.
    Advice: run podium curve again: it rewrites the table from the existing runs.
    """
    whole = study.study
    regions = (
        divide_into_regions(registry.load_endpoints_round(CURVE_ROUND), whole.asked)
        if whole.asked
        else None
    )
    for name, made in (
        ("c_min", min(whole.asked, default=0)),
        ("c_max", max(whole.asked, default=0)),
        ("regions", regions),
    ):
        if getattr(whole, name) != made:
            yield study.build_fault(f"{name} {getattr(whole, name)}", f"{made}")
    for run in study.runs:
        region = find_curve_region(regions, run.table_row.concurrency)
        if run.table_row.region != region:
            yield study.build_fault(
                f"region {run.table_row.region} of {run.table_row.folder}", f"{region}"
            )
        yield from check_point_figures(study, run)


def check_point_figures(study: CurveFile, run: CurveRun) -> Iterator[Fault]:
    """Yield figures of a point that its records do not give."""
    made = recompute_point_figures(run)
    if made is None:
        yield run.build_fault(
            "no figures", "answers of several tokens, as the table states", TOKEN_RECORD_FILE
        )
        return
    row, logged = run.table_row, run.run.find_number(LOADGEN_TOKEN_RATE_KEY)
    for name, value in (made | {"loadgen_tps": logged}).items():
        stated = getattr(row, name)
        if value is None or not math.isclose(stated, value, rel_tol=CURVE_FIGURE_TOLERANCE):
            yield study.build_fault(
                f"{name} {stated!r} of {row.folder}", f"{value!r}, as in its files"
            )
    rate = made["system_tps"]
    if logged is not None and not math.isclose(logged, rate, rel_tol=MAX_TOKEN_RATE_GAP):
        yield run.run.build_detail_fault(
            LOADGEN_TOKEN_RATE_KEY,
            f"{logged:.6g} tokens/s",
            f"within {MAX_TOKEN_RATE_GAP:.0%} of {rate:.6g}, from the records",
        )


def recompute_point_figures(run: CurveRun) -> dict[str, Any] | None:
    """Recompute the figures of a point; None if its records do not give them."""
    starts, tokens, record = run.starts_ns, run.run.tokens, run.run.record
    if tokens is None or starts is None or record is None or record.sample_count < 1:
        return None
    if len(starts) != len(tokens):
        return None
    found = compute_curve_figures(
        starts, tokens.first_ns, tokens.last_ns, tokens.tokens, record.sample_count
    )
    return None if found is None else asdict(found)
