"""How far apart the evaluations of a published training log are, from the start of the run to the
last: by the rules, and by one another.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.training.evaluations import Evaluation, place_of
from compliance.documents.training.log import BATCH, PublishedLog
from compliance.documents.training.values import finite
from compliance.verdict import Fault, Severity
from suite import events
from suite.rounds.published_training import PublishedBenchmark, UsualInterval

FEWEST: Final = 4
"""Gaps between evaluations from which on one that is longer than the others shows that an
evaluation is missing.
"""
IN_FLIGHT: Final = 2
"""Evaluations that may have ended and not told their result when a run stops."""
FEW: Final = 2
"""Evaluations that do not show what became of those before them; where there are more, the run may
have begun to evaluate late.
"""
EVEN: Final = 1.1
"""Gaps that differ by less are equal: the last batch of an interval may be another one."""
LONGER: Final = 1.25
"""From here on one gap is longer than even ones, and no spread of theirs."""
SKIPPED: Final = 3.0
"""Times the rules' interval that no logger's own way of counting explains."""
LEFT_OUT: Final = (1.9, 2.1)
"""Between these two, in parts of another gap, two gaps are one."""


def apart(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield evaluations that are farther apart than the rules, or the other evaluations, have
    them.
    """
    placed = sorted((each for each in log.evaluations if each.epoch is not None), key=place)
    batch = log.value(BATCH)
    known = float(batch) if finite(batch) and batch >= 1 else None
    if row.evaluate_every_samples and known:
        every = math.ceil(row.evaluate_every_samples / known) * known
        yield from too_far(log, placed, every)
        yield from late_start(
            log, placed, every * (1 + (row.skipped.at(known) if row.skipped else 0))
        )
        first = (
            row.first_evaluation.at(int(known), int(every))
            if row.first_evaluation and log.closed
            else None
        )
        if first is not None and placed and placed[0].epoch != first:
            yield log.fault(
                f"the first evaluation at {placed[0].epoch:g}", f"{first}", placed[0].entry.line
            )
    elif row.evaluate_every_epochs:
        yield from too_far(log, placed, row.evaluate_every_epochs)
        yield from late_start(log, placed, row.evaluate_every_epochs)
    elif row.usual_interval and known:
        every = row.usual_interval.at(known)
        yield from usually(log, placed, every, row.usual_interval)
        yield from late_start(
            log, placed, every * (1 + (row.skipped.at(known) if row.skipped else 0))
        )
    else:
        yield from left_out(log, placed, fixed=False)


def place(evaluation: Evaluation) -> float:
    """Give the progress of a run at an evaluation."""
    return evaluation.epoch or 0.0


def too_far(log: PublishedLog, placed: Sequence[Evaluation], every: float) -> Iterator[Fault]:
    """Yield evaluations that come later after the one before them than the rules say."""
    for early, late in zip(placed, placed[1:], strict=False):
        if place(late) - place(early) > every * EVEN:
            yield between(log, early, late, f"at most {every:g} between two")


def usually(
    log: PublishedLog, placed: Sequence[Evaluation], every: float, rule: UsualInterval
) -> Iterator[Fault]:
    """Yield gaps that are longer than the usual ones: an error where the log's own others are not,
    or no way of counting explains it.

    Where the batch size decides, gaps that are shorter tell that the log states another one than
    the run had.
    """
    odd = list(left_out(log, placed, fixed=not (log.row and log.row.evaluated_later)))
    yield from odd
    counted = (
        all(place(each).is_integer() for each in placed) and every < 1
    )  # evaluations that are numbered
    far = [
        (early, late)
        for early, late in zip(placed, placed[1:], strict=False)
        if place(late) - place(early) > every * EVEN
    ]
    if far and not odd:
        early, late = max(far, key=lambda pair: place(pair[1]) - place(pair[0]))
        beyond = log.closed and not counted and place(late) - place(early) > every * SKIPPED
        yield between(
            log, early, late, f"about {every:g} between two", None if beyond else Severity.WARNING
        )
    gaps = [place(late) - place(early) for early, late in zip(placed, placed[1:], strict=False)]
    if rule.per_batch and gaps and max(gaps) * EVEN < every:
        found = f"evaluations at most {max(gaps):g} apart"
        yield log.fault(
            found, f"about {every:g}, or another {BATCH}", placed[1].entry.line, Severity.WARNING
        )


def late_start(log: PublishedLog, placed: Sequence[Evaluation], first: float) -> Iterator[Fault]:
    """Yield a first evaluation that comes later than the rules say; epochs may be counted from
    1.
    """
    if not placed:
        return
    at, from_one = (
        place(placed[0]),
        (1.0 if events.EPOCH_NUM in placed[0].entry.metadata and place(placed[0]) >= 1 else 0.0),
    )
    if at - from_one > first * EVEN:
        alone = len(placed) <= FEW and not (log.row and log.row.evaluated_later)
        beyond = log.closed and alone and at - from_one > first * SKIPPED
        yield log.fault(
            f"the first evaluation at {at:.12g}",
            f"one by {first + from_one:g}",
            placed[0].entry.line,
            None if beyond else Severity.WARNING,
        )


def left_out(log: PublishedLog, placed: Sequence[Evaluation], fixed: bool) -> Iterator[Fault]:
    """Yield a gap that is longer than all others, which are equal; the first may be longer, where
    schedules begin.
    """
    gaps = [place(late) - place(early) for early, late in zip(placed, placed[1:], strict=False)]
    longest = max(range(len(gaps)), key=gaps.__getitem__, default=0)
    others = gaps[:longest] + gaps[longest + 1 :]
    if longest == 0 or len(gaps) < FEWEST or min(others) <= 0 or max(others) >= EVEN * min(others):
        return
    times = gaps[longest] / max(others)
    if times > LONGER:
        sure = fixed or LEFT_OUT[0] < times < LEFT_OUT[1]
        yield between(
            log,
            placed[longest],
            placed[longest + 1],
            f"one about every {max(others):.6g}",
            None if sure else Severity.WARNING,
        )


def between(
    log: PublishedLog,
    early: Evaluation,
    late: Evaluation,
    required: str,
    severity: Severity | None = None,
) -> Fault:
    """Build the fault of two evaluations."""
    return log.fault(
        f"evaluations at {early.epoch:.12g} and {late.epoch:.12g}",
        required,
        late.entry.line,
        severity,
    )


def unfinished(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield a log in which evaluations begin or end without a result."""
    told = len(log.all(events.EVAL_ACCURACY))
    started = len(log.all(events.EVAL_START))
    ended = len({place_of(record, row.progress) for record in log.all(events.EVAL_STOP)})
    if ended > told + IN_FLIGHT:
        yield log.fault(
            f"{told} eval_accuracy for {ended} eval_stop",
            "a result of each",
            log.line(events.EVAL_STOP),
        )
    elif started - told > log.round.rules.open_evaluations:
        yield log.fault(
            f"{told} eval_accuracy for {started} eval_start",
            "one each",
            log.line(events.EVAL_START),
            Severity.WARNING,
        )
