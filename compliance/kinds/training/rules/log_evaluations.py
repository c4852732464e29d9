"""Check when a published training log evaluates: as often as the rules require, and before the end
of the run.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from compliance.kinds.training.documents.evaluations import parse_run_progress as progress_of
from compliance.kinds.training.documents.log import PublishedLog
from compliance.kinds.training.rules.intervals import (
    check_evaluation_intervals,
    check_unfinished_evaluations,
)
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite import events

MIN_TIMED_BLOCKS: Final = 3
"""Minimum number of blocks whose starts show how fast a run trains."""
MIN_TRAINED_SHARE: Final = 0.95
"""Minimum share of a checkpoint's training before the end of the run. Accepted runs have 0.99,
since their blocks are not equally long.
"""


@rule("log.schedule", PublishedLog, About.RULES, doubt="when the target was reached")
def schedule(log: PublishedLog) -> Iterator[Fault]:
    """The quality is evaluated as often as the rules require.

    Source: training_rules.adoc, Quality measure, Evaluation frequency; the benchmark's
    evaluate_every_epochs or evaluation_epochs.
    Advice: evaluate at the epochs that the rules require; log every evaluation.
    """
    row = log.row
    if row is None or not row.strict:
        return
    found = [(each.entry, each.epoch) for each in log.evaluations if each.epoch is not None]
    starts = (*log.epochs[events.BLOCK_START][:1], *log.epochs[events.EPOCH_START][:1])
    before = min((start for start in starts if start in (0, 1)), default=0.0) or 0.0
    for index, (record, epoch) in enumerate(found):
        if row.evaluate_every_epochs is not None:
            latest = before + row.evaluate_every_epochs
        else:
            scheduled = row.evaluation_epochs
            if index < len(scheduled):
                latest = scheduled[index] + row.evaluation_slack_epochs
            else:
                interval = scheduled[-1] - scheduled[-2]
                latest = before + interval + row.evaluation_slack_epochs
        if epoch > latest + 1e-9:
            yield log.build_fault(
                f"evaluation {index + 1} at epoch {epoch:g}, the previous one at {before:g}",
                f"an evaluation by epoch {latest:g}",
                record.line,
            )
        before = epoch
    yield from check_unevaluated_epochs(log, before)


def check_unevaluated_epochs(log: PublishedLog, last: float) -> Iterator[Fault]:
    """Yield a run that trained its last epochs, but did not evaluate them, for longer than the
    rules allow.
    """
    row = log.row
    if row is None or row.evaluate_every_epochs is None:
        return
    ended = [epoch or 0.0 for epoch in log.epochs[events.EPOCH_STOP]]
    if ended and max(ended) >= last + 2 * row.evaluate_every_epochs:
        found = f"a last evaluation at epoch {last:g}, and a last epoch {max(ended):g}"
        yield log.build_fault(
            found, f"an evaluation every {row.evaluate_every_epochs} epochs", events.RUN_STOP
        )


@rule("log.interval", PublishedLog, About.RULES, doubt="when the target was reached")
def interval(log: PublishedLog) -> Iterator[Fault]:
    """The quality is evaluated as often as the rules require, the first time when the rules
    require, and no evaluation is left out.

    Source: training_rules.adoc, Quality measure, Evaluation frequency; the benchmark's
    evaluate_every_samples, evaluate_every_epochs, usual_interval, skipped and first_evaluation. If
    the rules give a formula, or a logger may count from 1, only large differences are an error.
    Advice: evaluate when the rules require, and log every evaluation.
    """
    row = log.row
    if (
        row is None
        or not row.progress
        or not row.data_set
        or (row.evaluated_later and not row.usual_interval)
    ):
        return
    yield from check_evaluation_intervals(log, row)
    if not row.evaluated_later:
        yield from check_unfinished_evaluations(log, row)


@rule("log.checkpoint", PublishedLog, About.SCORE, doubt="the time to train")
def checkpoint(log: PublishedLog) -> Iterator[Fault]:
    """If checkpoints are evaluated after the run, the run stops when it has trained the first
    checkpoint that reaches the target, and not before.

    Source: training_rules.adoc, Quality measure: the clock is stopped at the timestamp of the first
    passing checkpoint.
    Advice: use the time at which that checkpoint was written.
    """
    stop, wanted = log.find_record(events.RUN_STOP), log.converged_at
    if stop is None or wanted is None or log.row is None or not log.row.evaluated_later:
        return
    trained = estimate_progress_at(log, stop.time_ns)
    counted = max(
        (
            at
            for record in log.list_records(events.BLOCK_START)
            if (at := progress_of(record, log.row.progress)) is not None
        ),
        default=0.0,
    )
    # blocks that end below half of it have another unit
    if trained is not None and trained < MIN_TRAINED_SHARE * wanted <= 2 * counted:
        found = (
            f"run_stop after about {trained:.6g} of the first passing checkpoint's {wanted:.12g}"
        )
        yield log.build_fault(
            found, "the end of the run after that checkpoint's training", stop.line
        )


def estimate_progress_at(log: PublishedLog, time_ns: int) -> float | None:
    """Estimate the progress at a time from the starts of the blocks, which come in equal steps;
    None if they do not show it.
    """
    progress = log.row.progress if log.row else ()
    timed_progress = [
        (record.time_ns, at)
        for record in log.list_records(events.BLOCK_START)
        if (at := progress_of(record, progress)) is not None
    ]
    if (
        len(timed_progress) < MIN_TIMED_BLOCKS
        or any(late <= early for (_, early), (_, late) in pairwise(timed_progress))
        or any(late <= early for (early, _), (late, _) in pairwise(timed_progress))
    ):
        return None
    after = next(
        (index for index, (began, _) in enumerate(timed_progress) if began > time_ns),
        len(timed_progress) - 1,
    )
    (early_ns, early), (late_ns, late) = (
        timed_progress[max(after - 1, 0)],
        timed_progress[max(after, 1)],
    )
    return early + (late - early) * (time_ns - early_ns) / (late_ns - early_ns)
