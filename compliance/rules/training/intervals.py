"""Check the distances between the evaluations of a published training log against the rules and
against one another.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.training.evaluations import PublishedEvaluation, parse_run_progress
from compliance.documents.training.log import GLOBAL_BATCH_KEY, PublishedLog
from compliance.documents.training.values import is_plain_finite_number
from compliance.verdict import Fault, Severity
from suite import events
from suite.rounds.published_training import PublishedBenchmark, UsualInterval

MIN_COMPARED_GAPS: Final = 4
"""Minimum number of gaps: from here on, one gap longer than the others shows a missing evaluation.
"""
MAX_UNTOLD_EVALUATIONS: Final = 2
"""Maximum number of ended evaluations that have not logged their results when a run stops."""
FEW_EVALUATIONS: Final = 2
"""Maximum number of evaluations that do not show the fate of earlier ones; if there are more, the
run may have begun to evaluate late.
"""
EVEN_GAP_FACTOR: Final = 1.1
"""Gaps that differ by less are equal: the last batch of an interval may differ."""
LONGER_GAP_FACTOR: Final = 1.25
"""From this factor on, one gap is longer than equal ones, and not part of their spread."""
MAX_INTERVAL_FACTOR: Final = 3.0
"""Multiple of the rules' interval that no logger's own way of counting explains."""
DOUBLE_GAP_RANGE: Final = (1.9, 2.1)
"""Between these two factors of another gap, one gap corresponds to two."""


def check_evaluation_intervals(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield evaluations that are farther apart than the rules, or the other evaluations, allow."""
    placed = sorted(
        (each for each in log.evaluations if each.epoch is not None), key=get_evaluation_epoch
    )
    batch = log.find_value(GLOBAL_BATCH_KEY)
    known = float(batch) if is_plain_finite_number(batch) and batch >= 1 else None
    if row.evaluate_every_samples and known:
        every = math.ceil(row.evaluate_every_samples / known) * known
        yield from check_interval_limit(log, placed, every)
        yield from check_first_evaluation(
            log, placed, every * (1 + (row.skipped.compute_allowed(known) if row.skipped else 0))
        )
        first = (
            row.first_evaluation.compute_samples_before(int(known), int(every))
            if row.first_evaluation and log.closed
            else None
        )
        if first is not None and placed and placed[0].epoch != first:
            yield log.build_fault(
                f"the first evaluation at {placed[0].epoch:g}", f"{first}", placed[0].entry.line
            )
    elif row.evaluate_every_epochs:
        yield from check_interval_limit(log, placed, row.evaluate_every_epochs)
        yield from check_first_evaluation(log, placed, row.evaluate_every_epochs)
    elif row.usual_interval and known:
        every = row.usual_interval.compute_interval(known)
        yield from check_usual_interval(log, placed, every, row.usual_interval)
        yield from check_first_evaluation(
            log, placed, every * (1 + (row.skipped.compute_allowed(known) if row.skipped else 0))
        )
    else:
        yield from check_missing_evaluation(log, placed, fixed=False)


def get_evaluation_epoch(evaluation: PublishedEvaluation) -> float:
    """Return the progress of a run at an evaluation."""
    return evaluation.epoch or 0.0


def check_interval_limit(
    log: PublishedLog, placed: Sequence[PublishedEvaluation], every: float
) -> Iterator[Fault]:
    """Yield evaluations that follow the previous one later than the rules allow."""
    for early, late in zip(placed, placed[1:], strict=False):
        if get_evaluation_epoch(late) - get_evaluation_epoch(early) > every * EVEN_GAP_FACTOR:
            yield build_interval_fault(
                log, early, late, f"at most {every:g} between two evaluations"
            )


def check_usual_interval(
    log: PublishedLog, placed: Sequence[PublishedEvaluation], every: float, rule: UsualInterval
) -> Iterator[Fault]:
    """Yield gaps that are longer than the usual ones. It is an error if the log's other gaps are
    not, or if no way of counting explains the gap.

    If the batch size decides the interval, shorter gaps show that the logged batch size is not the
    run's.
    """
    odd = list(
        check_missing_evaluation(log, placed, fixed=not (log.row and log.row.evaluated_later))
    )
    yield from odd
    counted = (
        all(get_evaluation_epoch(each).is_integer() for each in placed) and every < 1
    )  # numbered evaluations
    far = [
        (early, late)
        for early, late in zip(placed, placed[1:], strict=False)
        if get_evaluation_epoch(late) - get_evaluation_epoch(early) > every * EVEN_GAP_FACTOR
    ]
    if far and not odd:
        early, late = max(
            far, key=lambda pair: get_evaluation_epoch(pair[1]) - get_evaluation_epoch(pair[0])
        )
        beyond = (
            log.closed
            and not counted
            and get_evaluation_epoch(late) - get_evaluation_epoch(early)
            > every * MAX_INTERVAL_FACTOR
        )
        yield build_interval_fault(
            log,
            early,
            late,
            f"about {every:g} between two evaluations",
            None if beyond else Severity.WARNING,
        )
    gaps = [
        get_evaluation_epoch(late) - get_evaluation_epoch(early)
        for early, late in zip(placed, placed[1:], strict=False)
    ]
    if rule.per_batch and gaps and max(gaps) * EVEN_GAP_FACTOR < every:
        found = f"evaluations at most {max(gaps):g} apart"
        yield log.build_fault(
            found,
            f"about {every:g}, or another {GLOBAL_BATCH_KEY}",
            placed[1].entry.line,
            Severity.WARNING,
        )


def check_first_evaluation(
    log: PublishedLog, placed: Sequence[PublishedEvaluation], first: float
) -> Iterator[Fault]:
    """Yield a first evaluation that is later than the rules allow; epochs may be counted from 1."""
    if not placed:
        return
    at, from_one = (
        get_evaluation_epoch(placed[0]),
        (
            1.0
            if events.EPOCH_NUM in placed[0].entry.metadata and get_evaluation_epoch(placed[0]) >= 1
            else 0.0
        ),
    )
    if at - from_one > first * EVEN_GAP_FACTOR:
        alone = len(placed) <= FEW_EVALUATIONS and not (log.row and log.row.evaluated_later)
        beyond = log.closed and alone and at - from_one > first * MAX_INTERVAL_FACTOR
        yield log.build_fault(
            f"the first evaluation at {at:.12g}",
            f"an evaluation by {first + from_one:g}",
            placed[0].entry.line,
            None if beyond else Severity.WARNING,
        )


def check_missing_evaluation(
    log: PublishedLog, placed: Sequence[PublishedEvaluation], fixed: bool
) -> Iterator[Fault]:
    """Yield a gap that is longer than all others, which are equal. The first may be longer, since
    schedules begin there.
    """
    gaps = [
        get_evaluation_epoch(late) - get_evaluation_epoch(early)
        for early, late in zip(placed, placed[1:], strict=False)
    ]
    longest = max(range(len(gaps)), key=gaps.__getitem__, default=0)
    others = gaps[:longest] + gaps[longest + 1 :]
    if (
        longest == 0
        or len(gaps) < MIN_COMPARED_GAPS
        or min(others) <= 0
        or max(others) >= EVEN_GAP_FACTOR * min(others)
    ):
        return
    times = gaps[longest] / max(others)
    if times > LONGER_GAP_FACTOR:
        sure = fixed or DOUBLE_GAP_RANGE[0] < times < DOUBLE_GAP_RANGE[1]
        yield build_interval_fault(
            log,
            placed[longest],
            placed[longest + 1],
            f"an evaluation about every {max(others):.6g}",
            None if sure else Severity.WARNING,
        )


def build_interval_fault(
    log: PublishedLog,
    early: PublishedEvaluation,
    late: PublishedEvaluation,
    required: str,
    severity: Severity | None = None,
) -> Fault:
    """Build the fault for two evaluations."""
    return log.build_fault(
        f"evaluations at {early.epoch:.12g} and {late.epoch:.12g}",
        required,
        late.entry.line,
        severity,
    )


def check_unfinished_evaluations(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield a log in which evaluations begin or end without a result."""
    results = len(log.list_records(events.EVAL_ACCURACY))
    started = len(log.list_records(events.EVAL_START))
    ended = len(
        {parse_run_progress(record, row.progress) for record in log.list_records(events.EVAL_STOP)}
    )
    if ended > results + MAX_UNTOLD_EVALUATIONS:
        yield log.build_fault(
            f"{results} eval_accuracy for {ended} eval_stop",
            "one result for each evaluation",
            log.find_line(events.EVAL_STOP),
        )
    elif started - results > log.round.rules.open_evaluations:
        yield log.build_fault(
            f"{results} eval_accuracy for {started} eval_start",
            "one result for each evaluation",
            log.find_line(events.EVAL_START),
            Severity.WARNING,
        )
