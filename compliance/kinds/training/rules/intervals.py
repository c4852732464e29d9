"""Check the distances between the evaluations of a published training log against the rules and
against one another.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from compliance.kinds.training.documents.evaluations import PublishedEvaluation, parse_run_progress
from compliance.kinds.training.documents.log import GLOBAL_BATCH_KEY, PublishedLog
from compliance.kinds.training.round import PublishedBenchmark
from compliance.kinds.training.rules.log_identity import find_other_result_event
from compliance.logs.finite_numbers import is_finite_number
from compliance.verdict import About, Fault
from suite import events

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
MAX_LATE_INTERVALS: Final = 2.0
"""Intervals by which a first evaluation may be late before it is beyond doubt."""
ROUNDING_ERROR: Final = 1e-9
DOUBLE_GAP_RANGE: Final = (1.9, 2.1)
"""Between these two factors of the other gaps, one gap corresponds to two."""


def check_evaluation_intervals(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield evaluations that are farther apart than the rules, or the other evaluations, allow.

    A run that evaluates at even distances, but at others than the rules', is form: accepted runs
    do. A gap that the run's other gaps do not have means that an evaluation is missing.
    """
    placed = sorted(
        (each for each in log.evaluations if each.epoch is not None), key=get_evaluation_epoch
    )
    batch = log.find_value(GLOBAL_BATCH_KEY)
    known = None
    if is_finite_number(batch) and batch >= 1:
        known = float(batch)
    every = compute_required_interval(row, known)
    missing = list(check_missing_evaluation(log, placed, fixed=every is not None))
    yield from missing
    if every is None:
        return
    if not missing:
        yield from check_interval_limit(log, placed, every)
    skipped = 0
    if row.skipped and known:
        skipped = row.skipped.compute_allowed(known)
    if row.first_evaluation is None:
        yield from check_first_evaluation(log, placed, every, every * (1 + skipped))
    elif row.evaluate_every_samples and known and log.closed and placed:
        first = row.first_evaluation.compute_samples_before(int(known), int(every))
        if placed[0].epoch != first:
            yield log.build_fault(
                f"the first evaluation at {placed[0].epoch:g}", f"{first}", placed[0].entry.line
            )


def compute_required_interval(row: PublishedBenchmark, batch: float | None) -> float | None:
    """Return the distance between two evaluations by the rules, in the benchmark's unit; None if
    they give none, or it depends on a batch size that is unknown.
    """
    if row.evaluate_every_epochs:
        return row.evaluate_every_epochs
    if batch is None:
        return None
    if row.evaluate_every_samples:
        return math.ceil(row.evaluate_every_samples / batch) * batch
    if row.usual_interval:
        return row.usual_interval.compute_interval(batch)
    return None


def get_evaluation_epoch(evaluation: PublishedEvaluation) -> float:
    """Return the progress of a run at an evaluation."""
    return evaluation.epoch or 0.0


def list_gaps(placed: Sequence[PublishedEvaluation]) -> list[float]:
    """List the distances between evaluations."""
    at = list(map(get_evaluation_epoch, placed))
    return [late - early for early, late in zip(at, at[1:], strict=False)]


def check_interval_limit(
    log: PublishedLog, placed: Sequence[PublishedEvaluation], every: float
) -> Iterator[Fault]:
    """Yield the longest gap if it is longer than the rules allow. It is an error if the other gaps
    are not, or if no way of counting explains it.
    """
    row, gaps = log.row, list_gaps(placed)
    numbered = every < 1 and all(get_evaluation_epoch(each).is_integer() for each in placed)
    longest = max(range(len(gaps)), key=gaps.__getitem__, default=0)
    if gaps and gaps[longest] > every * EVEN_GAP_FACTOR:
        lone = len(gaps) > 1 and median(gaps) <= every * EVEN_GAP_FACTOR
        fixed = row is not None and row.usual_interval is None
        beyond = log.closed and not numbered and gaps[longest] > every * MAX_INTERVAL_FACTOR
        early, late = placed[longest : longest + 2]
        yield log.build_fault(
            f"evaluations at {early.epoch:.12g} and {late.epoch:.12g}",
            f"at most {every:g} between two evaluations",
            late.entry.line,
            about=None if (lone and fixed) or beyond else About.FORM,
        )
    per_batch = row is not None and row.usual_interval and row.usual_interval.per_batch
    if per_batch and gaps and gaps[longest] * EVEN_GAP_FACTOR < every:
        yield log.build_fault(
            f"evaluations at most {gaps[longest]:g} apart",
            f"about {every:g}, or another {GLOBAL_BATCH_KEY}",
            placed[1].entry.line,
            about=About.FORM,
        )


def check_first_evaluation(
    log: PublishedLog, placed: Sequence[PublishedEvaluation], every: float, first: float
) -> Iterator[Fault]:
    """Yield a first evaluation that is later than the rules allow; epochs may be counted from 1.
    Two intervals late it is an error in the closed division, if nothing shows that the
    run only began to evaluate late.
    """
    if not placed:
        return
    at = get_evaluation_epoch(placed[0])
    from_one = 0.0
    if events.EPOCH_NUM in placed[0].entry.metadata and at >= 1:
        from_one = 1.0
    if at - from_one > first * EVEN_GAP_FACTOR:
        alone = len(placed) <= FEW_EVALUATIONS and not (log.row and log.row.evaluated_later)
        latest = (first + every * MAX_LATE_INTERVALS) * (1 - ROUNDING_ERROR)
        beyond = log.closed and alone and at - from_one >= latest
        yield log.build_fault(
            f"the first evaluation at {at:.12g}",
            f"an evaluation by {first + from_one:g}",
            placed[0].entry.line,
            about=None if beyond else About.FORM,
        )


def check_missing_evaluation(
    log: PublishedLog, placed: Sequence[PublishedEvaluation], *, fixed: bool
) -> Iterator[Fault]:
    """Yield a gap that is longer than all others, which are equal. The first may be longer, since
    schedules begin there.
    """
    gaps = list_gaps(placed)
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
        sure = DOUBLE_GAP_RANGE[0] < times < DOUBLE_GAP_RANGE[1] or (
            fixed and not (log.row and log.row.evaluated_later)
        )
        early, late = placed[longest : longest + 2]
        yield log.build_fault(
            f"evaluations at {early.epoch:.12g} and {late.epoch:.12g}",
            f"an evaluation about every {max(others):.6g}",
            late.entry.line,
            about=None if sure else About.FORM,
        )


def check_unfinished_evaluations(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield a log in which evaluations end without a result, unless it has their results under
    another name, which log.present tells.
    """
    if find_other_result_event(log):
        return
    results = len(log.list_records(events.EVAL_ACCURACY))
    ended = len(
        {parse_run_progress(record, row.progress) for record in log.list_records(events.EVAL_STOP)}
    )
    if ended > results + MAX_UNTOLD_EVALUATIONS:
        yield log.build_fault(
            f"{results} eval_accuracy for {ended} eval_stop",
            "one result for each evaluation",
            events.EVAL_STOP,
        )
