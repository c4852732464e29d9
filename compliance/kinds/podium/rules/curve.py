"""Check the closed loop of a curve's points, by the records of tokens and of prompts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from compliance.kinds.podium.documents.curve_study import CurveFile
from compliance.kinds.podium.documents.measured_study import StudyRun
from compliance.kinds.podium.recorded_times import WALL_CLOCK_DRIFT
from compliance.kinds.podium.rules.inference.answers import MAX_SHOWN_ANSWERS, is_same_model_answer
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import (
    ACCURACY_LOG,
    QUERY_RECORD_FILE,
    ROOM_RECORD_FILE,
    START_RECORD_FILE,
    TOKEN_RECORD_FILE,
)
from suite.studies.concurrency_curve import (
    LOADGEN_TOKEN_RATE_KEY,
    MAX_TOKEN_RATE_GAP,
    count_most_in_flight,
)
from suite.studies.own_prompts import has_own_prompts
from suite.units import NS_PER_MS

MAX_IDLE_SHARE: Final = 0.02
"""Of the requests, not in flight on average."""
IDLE_NS: Final = 150_000
LATE_NS: Final = 500_000
WAIT_PER_REQUEST_NS: Final = 5_000
"""How long a prompt waits for its place once an answer has ended: on average, and at most."""
MAX_LATE_SHARE: Final = 0.15
STALLED_SHARE: Final = 0.01
"""Of the prompts, that wait longest, and count as stalls of the machine. In twenty real points
(1 to 8 requests in flight, in this process and towards podium serve, eight of them beside twice as
many busy programs as cores) prompts waited 0.01 to 0.05 ms in the median, and at most 3.2 % of them
longer than 0.5 ms: up to 0.23 s. At most 0.8 % of the requests were not in flight.
"""
FEW_STALLS: Final = 3
"""Of a machine, in any point: of few prompts these are a large share."""
WAIT_ADVICE: Final = (
    "compare the point with others by its in_flight_mean, which has these waits; repeat it on a"
    " machine without other work to have a fuller load."
)
SERVER_ADVICE: Final = (
    "compare the point with others by its in_flight_mean, which has these waits; a server that ends"
    " its response with its last event, and keeps connections open, gives a fuller load."
)


@rule("curve.loop", CurveFile, About.SCORE)
def loop(study: CurveFile) -> Iterator[Fault]:
    """A point never has more answers in progress than requests in flight, and has as many until the
    last prompt begins: a prompt begins as soon as an answer ends. No prompt begins before LoadGen
    issues it, and no first token comes before its prompt begins. In this process one thread ends an
    answer and begins the next prompt, so that prompts begin at once however busy the machine: a
    late one is an error. Three stalls in a point are a warning, and so are waits behind other
    prompts, where several answers ended with one step. Towards servers the next prompt waits for
    the end of the response, and for a connection. There rooms.npy records when each prompt found
    its place, and waits are a warning.

    Source: house rule: harness/serving/loadgen/generation.py; all records have one clock. At most
    2 % of the requests are not in flight, or 0.15 ms for each prompt, and 0.005 ms more for each
    request in flight; at most 15 % of the prompts begin more than 0.5 ms late. Beside eight busy
    programs on two cores 1.4 % of them did, and 0.5 % of the requests were not in flight.
    Advice: keep the records of a point together: starts.npy, tokens.npy and queries.npy
    have one clock, and no wait explains this. Repeat the curve if one is lost.
    """
    for run in study.runs:
        starts, tokens, queries = run.starts_ns, run.run.tokens, run.run.queries
        if tokens is None or starts is None or len(starts) != len(tokens):
            yield run.build_fault(
                f"{0 if starts is None else len(starts)} starts,"
                f" {0 if tokens is None else len(tokens)} answers",
                "both records, with a row for each answer",
                file=START_RECORD_FILE,
            )
            continue
        most = count_most_in_flight(starts, tokens.last_ns)
        if most > run.point.concurrency:
            yield run.build_fault(
                f"{most} answers in progress at once",
                f"at most {run.point.concurrency}",
                file=START_RECORD_FILE,
            )
        if study.is_remote:
            yield from check_server_waits(run, starts, tokens.last_ns)
        else:
            yield from check_closed_loop(run, starts, tokens.last_ns)
        if bool((tokens.first_ns < starts).any()):
            yield run.build_fault(
                "a first token before its prompt", "prompts before tokens", file=START_RECORD_FILE
            )
        if queries is not None and len(queries) and int(starts.min()) < queries.issued_ns.min():
            yield run.build_fault(
                "a prompt that begins before LoadGen's query", "after it", file=START_RECORD_FILE
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWaits:
    """How long the prompts of a point waited for their places."""

    waits_ns: Any
    """From the end of an answer to the prompt that takes its place: a sorted array."""
    span_ns: int
    """From the first prompt to the last."""
    concurrency: int

    @property
    def median_ns(self) -> float:
        """The wait of the prompt in the middle."""
        return float(self.waits_ns[len(self.waits_ns) // 2])

    @property
    def late_ns(self) -> int:
        """The wait from which a prompt is late."""
        return LATE_NS + self.concurrency * WAIT_PER_REQUEST_NS

    @property
    def late(self) -> int:
        """Prompts that begin late."""
        return int((self.waits_ns > self.late_ns).sum())

    def measure_idle(self, stalls: int) -> float:
        """Return the requests not in flight on average, without so many of the longest waits."""
        stalled = max(stalls, math.ceil(STALLED_SHARE * len(self.waits_ns)))
        return int(self.waits_ns[: max(0, len(self.waits_ns) - stalled)].sum()) / self.span_ns

    @property
    def most_idle(self) -> float:
        """As many are usual."""
        allowed_ns = IDLE_NS + self.concurrency * WAIT_PER_REQUEST_NS
        return max(
            MAX_IDLE_SHARE * self.concurrency, len(self.waits_ns) * allowed_ns / self.span_ns
        )

    @property
    def idle_share(self) -> float:
        """Share of the loop's time that its prompts waited."""
        return int(self.waits_ns.sum()) / self.span_ns / self.concurrency

    def is_usual(self, stalls: int = 0) -> bool:
        """Return whether few prompts are late, and hardly any request was not in flight, beside so
        many stalls of the machine.
        """
        few = max(stalls, math.ceil(MAX_LATE_SHARE * len(self.waits_ns)))
        return self.measure_idle(stalls) <= self.most_idle and self.late <= few


def measure_loop_waits(
    run: StudyRun, starts: Any, ends: Any, *, first_only: bool = False
) -> LoopWaits | None:
    """Measure how long prompts waited once an answer had ended, until the last one began; None if
    no prompt had to wait. With `first_only`, one prompt counts for all answers that ended at once.
    """
    import numpy

    concurrency = run.point.concurrency
    if len(starts) <= concurrency:
        return None
    begun, ended = numpy.sort(starts), numpy.sort(ends)[: len(starts) - concurrency]
    waits_ns = begun[concurrency:] - ended
    if first_only:
        waits_ns = waits_ns[numpy.append(True, ended[1:] > ended[:-1])]
    return LoopWaits(
        waits_ns=numpy.sort(waits_ns),
        span_ns=max(int(begun[-1] - begun[0]), 1),
        concurrency=concurrency,
    )


def check_closed_loop(run: StudyRun, starts: Any, ends: Any) -> Iterator[Fault]:
    """Yield a loop with fewer requests in flight than the table says, until the last prompt begins:
    its latencies would be those of a smaller load.
    """
    waits = measure_loop_waits(run, starts, ends)
    if waits is None or waits.is_usual():
        return
    fault, first = (
        build_wait_fault(run, waits),
        measure_loop_waits(run, starts, ends, first_only=True),
    )
    if first is None or first.is_usual(FEW_STALLS):
        yield replace(fault, severity=Severity.WARNING, advice=WAIT_ADVICE)
        return
    yield replace(fault, required=f"{fault.required}: one thread does both")


def check_server_waits(run: StudyRun, starts: Any, ends: Any) -> Iterator[Fault]:
    """Yield waits of a loop towards servers, and a place that was free before an answer ended. What
    the waits were for is known only from the places.
    """
    import numpy

    waits, rooms = measure_loop_waits(run, starts, ends), run.rooms_ns
    known = rooms is not None and len(rooms) == len(starts)
    if known:
        free = numpy.sort(rooms)[run.point.concurrency :]
        early = int((free < numpy.sort(ends)[: len(free)]).sum()) + int((rooms > starts).sum())
        if early:
            yield run.build_fault(
                f"{early} prompts with a place that was not free, or not yet theirs",
                "places that are free once an answer has ended, before the prompt begins",
                file=ROOM_RECORD_FILE,
            )
            return
    if waits is None or waits.is_usual():
        return
    fault = build_wait_fault(run, waits)
    if not known:
        yield replace(fault, required=f"{fault.required}, or a {ROOM_RECORD_FILE}")
        return
    yield replace(fault, severity=Severity.WARNING, advice=SERVER_ADVICE)


def build_wait_fault(run: StudyRun, waits: LoopWaits) -> Fault:
    """Say how long prompts waited, and for what, if that is known."""
    import numpy

    found = (
        f"prompts begin {waits.median_ns / NS_PER_MS:.1f} ms behind an answer's last token in the"
        f" median, {waits.late} of {len(waits.waits_ns)} more than {waits.late_ns / NS_PER_MS:.2f}"
        f" ms: {waits.idle_share:.0%} of the loop"
    )
    if run.rooms_ns is not None and len(run.rooms_ns) == len(run.starts_ns):
        opening_ns = float(numpy.median(run.starts_ns - run.rooms_ns))
        ending_ns = max(0.0, waits.median_ns - opening_ns)
        found += (
            f" (responses end {ending_ns / NS_PER_MS:.1f} ms behind their last token, connections"
            f" take {opening_ns / NS_PER_MS:.1f} ms)"
        )
    return run.build_fault(
        found,
        f"at most {MAX_LATE_SHARE:.0%} of them so late, and {MAX_IDLE_SHARE:.0%} of the loop",
        file=START_RECORD_FILE,
    )


@rule("curve.steps", CurveFile, About.SCORE)
def steps(study: CurveFile) -> Iterator[Fault]:
    """In this process a step generates one token for each answer in progress, so the number of an
    answer's last step and its number of tokens give the number of its first step. The first token
    comes after all answers that ended in earlier steps, and before all that ended in later ones.

    Source: house rule: suite/workload.py, TokenGenerator; harness/serving/loadgen/generation.py
    numbers the steps in queries.npy. All 51,327 answers of twelve real points keep it: one thread
    takes all stamps, so a wait between two of them changes no order.
    Advice: keep tokens.npy and queries.npy of one run together; a busy
    machine does not explain this. Repeat the curve if one of them is lost.
    """
    if study.is_remote:
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
                file=TOKEN_RECORD_FILE,
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
    same byte for byte, or within the workload's tolerance for one model. Answers to the user's own
    prompts may depend on the batch and on sampling: other ones are a warning.

    Source: house rule, as answers.same; whether the answers are accurate, no run of a curve says.
    Advice: serve one model at all points; if answers depend on the batch, remove that dependence.
    """
    known: dict[int, tuple[str, bytes]] = {}
    for run in study.runs:
        faults = list(islice(check_point_answers(run, known), MAX_SHOWN_ANSWERS))
        record = run.run.record
        if record is not None and has_own_prompts(record.system):
            faults = [replace(each, severity=Severity.WARNING) for each in faults[:1]]
        yield from faults


def check_point_answers(run: StudyRun, known: dict[int, tuple[str, bytes]]) -> Iterator[Fault]:
    """Yield answers of a point that differ from those of earlier ones: sample -> folder and answer
    of the first point that logged it, which is extended.
    """
    logged = run.run.answers
    for place, sample in enumerate(logged.samples):
        found = logged.read_answer(place)
        folder, wanted = known.setdefault(sample, (run.place, found))
        if not is_same_model_answer(run.run, found, wanted):
            fault = run.build_fault(
                f"a different answer to sample {sample}",
                f"the answer of {folder}",
                file=ACCURACY_LOG,
            )
            yield replace(fault, line=logged.lines[place])


@rule("curve.figures", CurveFile, About.SCORE)
def figures(study: CurveFile) -> Iterator[Fault]:
    """LoadGen's tokens/s of a point are no more than the tokens/s by its records of tokens and
    starts, whose clock begins with the first prompt. If LoadGen's are more than 1 % less, that is a
    warning, since the first prompt waited for a core.

    Source: suite/studies/concurrency_curve.py; Endpoints rules, 4.1. LoadGen's clock begins before
    the first prompt, and ends behind the last token.
    Advice: keep the records of a point together; repeat the curve if one is lost.
    """
    for run in study.runs:
        if run.figures is None:
            continue  # study.answer finds it
        rate, logged = run.figures.system_tps, run.figures.loadgen_tps
        above = logged > rate * (1 + WALL_CLOCK_DRIFT)
        if above or logged < rate * (1 - MAX_TOKEN_RATE_GAP):
            fault = run.run.build_fault(
                f"{logged:.6g} tokens/s",
                f"{rate:.6g}, from the records, or at most {MAX_TOKEN_RATE_GAP:.0%} less",
                LOADGEN_TOKEN_RATE_KEY,
            )
            yield fault if above else replace(fault, severity=Severity.WARNING)
