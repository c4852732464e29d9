"""Check the progress that a published training log since v1.0 records at each evaluation, in the
benchmark's unit.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from compliance.documents.training.evaluations import parse_run_progress as progress_of
from compliance.documents.training.log import PublishedLog
from compliance.documents.training.values import is_plain_finite_number, parse_finite_number
from compliance.logs.mllog.published import PublishedRecord
from compliance.rules import rule
from compliance.rules.training.intervals import (
    MIN_COMPARED_GAPS,
    check_evaluation_intervals,
    check_unfinished_evaluations,
)
from compliance.rules.training.log_clock import (
    PUBLISHED_EVALUATION_EVENTS,
    TRAINING_BEGIN_EVENTS,
    TRAINING_END_EVENTS,
)
from compliance.rules.training.log_identity import format_short_value
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.rounds.legality import check_hyperparameter_constraints

PROGRESS_UNITS: Final = (
    events.EPOCH_NUM,
    "samples_count",
    "step_num",
    events.FIRST_EPOCH_NUM,
    events.EPOCH_COUNT,
)
"""Units of blocks and epochs."""
PLACED_EVENTS: Final = frozenset(
    {
        events.BLOCK_START,
        events.BLOCK_STOP,
        events.EPOCH_START,
        events.EPOCH_STOP,
        events.EVAL_START,
        events.EVAL_STOP,
    }
)
MATCHING_FIELDS: Final = (events.FIRST_EPOCH_NUM, *PROGRESS_UNITS)
PAIRED_EVENTS: Final = (
    (events.BLOCK_START, events.BLOCK_STOP),
    (events.EPOCH_START, events.EPOCH_STOP),
    (events.EVAL_START, events.EVAL_STOP),
    (events.EVAL_START, events.EVAL_ACCURACY),
)
MAX_UNPAIRED_AT_END: Final = 2
"""Number of blocks, epochs or evaluations at the end of a log that may be unpaired."""
MIN_TIMED_BLOCKS: Final = 3
"""Minimum number of blocks whose starts show how fast a run trains."""
MIN_TRAINED_SHARE: Final = 0.95
"""Minimum share of a checkpoint's training before the end of the run. Accepted runs have 0.99,
since their blocks are not equally long.
"""


@rule("log.position", PublishedLog)
def position(log: PublishedLog) -> Iterator[Fault]:
    """Each evaluation logs the run's progress in the unit of its benchmark: epochs, samples or
    steps.

    Source: mlcommons/logging, training_<round>/closed_<benchmark>.yaml, eval_accuracy: 'epoch_num'
    or 'samples_count' in the metadata; common.yaml.
    Advice: log the number with each evaluation; the reference convergence points use it.
    """
    if log.row is None or not log.row.progress:
        return
    fields = log.row.progress
    for record in log.list_records(events.EVAL_ACCURACY):
        stated = next(
            (record.metadata[field] for field in fields if field in record.metadata), None
        )
        if (value := parse_finite_number(stated)) is None or value < 0 or isinstance(stated, str):
            yield log.build_fault(
                f"eval_accuracy with {fields[0]} {format_short_value(stated)}",
                f"{' or '.join(fields)}: a number of at least 0",
                record.line,
            )
    yield from check_event_positions(log) if log.row.data_set else ()


def check_event_positions(log: PublishedLog) -> Iterator[Fault]:
    """Yield blocks, epochs and evaluations without a valid position (a number >= 0)."""
    for record in log.run:
        if record.key not in PLACED_EVENTS or has_usual_position(record.metadata):
            continue
        stated = [record.metadata[field] for field in PROGRESS_UNITS if field in record.metadata]
        counted = record.metadata.get(events.EPOCH_COUNT)
        if not stated:
            yield log.build_fault(
                f"{record.key} without its position",
                "epoch_num or samples_count",
                record.line,
            )
        elif wrong := [
            value
            for value in stated
            if isinstance(value, str) or (parse_finite_number(value) or 0.0) < 0
        ]:
            yield log.build_fault(
                f"{record.key} at {format_short_value(wrong[0])}",
                "a number of at least 0",
                record.line,
            )
        elif (
            record.key == events.BLOCK_START
            and counted is not None
            and (not is_plain_finite_number(counted) or counted <= 0)
        ):
            yield log.build_fault(
                f"block_start with epoch_count {format_short_value(counted)}",
                "a number above 0",
                record.line,
            )


def has_usual_position(metadata: Mapping[str, Any]) -> bool:
    """Return the usual case at once: one whole number of epochs or samples."""
    at = metadata.get("samples_count", metadata.get(events.EPOCH_NUM))
    return type(at) is int and at >= 0 and events.EPOCH_COUNT not in metadata


def find_interval_number(record: PublishedRecord) -> float | None:
    """Return the number that a start and its stop have in common: first_epoch_num for blocks, which
    may also have epoch_count.
    """
    for field in MATCHING_FIELDS:
        stated = record.metadata.get(field)
        if stated is not None:
            return stated if type(stated) is int else parse_finite_number(stated)
    return None


@rule("log.matched", PublishedLog)
def matched(log: PublishedLog) -> Iterator[Fault]:
    """If a log pairs its events, no start of a block, epoch or evaluation lacks its stop, and no
    evaluation lacks its result.

    Source: house rule: one program writes all events; accepted logs leave unfinished events open,
    or pair no events at all.
    Advice: submit the log exactly as the run wrote it; a gap in the middle means that an event was
    removed.
    """
    if not log.free or log.row is None or log.row.evaluated_later:
        return
    for one, other in PAIRED_EVENTS:
        first, second = (
            [(find_interval_number(record), record) for record in log.list_records(key)]
            for key in (one, other)
        )
        here, there = Counter(place for place, _ in first), Counter(place for place, _ in second)
        if (
            here == there
            or min(len(first), len(second)) < MIN_COMPARED_GAPS
            or max((*here.values(), *there.values())) > 2
        ):
            continue
        for mine, theirs, told, key in ((first, there, here, other), (second, here, there, one)):
            odd = [record for place, record in mine if told[place] > theirs[place]]
            if len(odd) == 1 and is_middle_record(odd[0], mine):
                place = find_interval_number(odd[0])
                where = "" if place is None else f" at {place:.12g}"
                yield log.build_fault(
                    f"{odd[0].key}{where} without its {key}",
                    "one, as elsewhere in the log",
                    odd[0].line,
                )


def is_middle_record(
    record: PublishedRecord, among: Sequence[tuple[float | None, PublishedRecord]]
) -> bool:
    """Return whether a record is in the middle of the log: the first and the last few may be
    unfinished.
    """
    return record not in [each for _, each in (*among[:1], *among[-MAX_UNPAIRED_AT_END:])]


@rule("log.ascending", PublishedLog)
def ascending(log: PublishedLog) -> Iterator[Fault]:
    """Evaluations occur once each, in the order of the run's progress.

    Source: training_rules.adoc, Quality measure; except benchmarks whose checkpoints are evaluated
    after the run.
    Advice: submit the log exactly as the run wrote it.
    """
    if log.row is None or not log.row.progress or log.row.evaluated_later:
        return
    placed = [each for each in log.evaluations if each.epoch is not None]
    for early, late in zip(placed, placed[1:], strict=False):
        if (late.epoch or 0.0) <= (early.epoch or 0.0) and log.row.data_set:
            yield log.build_fault(
                f"an evaluation at {late.epoch:.12g} after the one at {early.epoch:.12g}",
                "a later position",
                late.entry.line,
            )


@rule(
    "log.interval",
    PublishedLog,
    about=About.RULES,
    doubt="when the target was reached",
)
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


@rule("log.behind", PublishedLog)
def behind(log: PublishedLog) -> Iterator[Fault]:
    """No training happens after run_stop.

    Source: training_rules.adoc, Run Results; work that began before run_stop may be reported after
    it.
    Advice: stop the clock when the last evaluation is done.
    """
    stop = log.find_first_record(events.RUN_STOP)
    if (
        stop is None
        or log.row is None
        or not log.free
        or log.row.evaluated_later
        or not log.row.data_set
    ):
        return
    late = [
        record for record in log.run if record.order > stop.order and record.time_ns > stop.time_ns
    ]
    for begin, end in zip(TRAINING_BEGIN_EVENTS, TRAINING_END_EVENTS, strict=True):
        begun = next((record for record in late if record.key == begin), None)
        if begun and any(record.key == end and record.order > begun.order for record in late):
            yield log.build_fault(
                f"{begin} and {end} after run_stop",
                "no training after the end of the run",
                begun.line,
            )
    evaluation = next(
        (record for record in late if record.key in PUBLISHED_EVALUATION_EVENTS), None
    )
    if evaluation:
        yield log.build_fault(
            f"{evaluation.key} after run_stop",
            "no evaluation after the end of the run",
            evaluation.line,
            Severity.WARNING,
        )


@rule(
    "log.checkpoint",
    PublishedLog,
    about=About.SCORE,
    doubt="the time to train",
)
def checkpoint(log: PublishedLog) -> Iterator[Fault]:
    """If checkpoints are evaluated after the run, the run stops when it has trained the first
    checkpoint that reaches the target, and not before.

    Source: training_rules.adoc, Quality measure: the clock is stopped at the timestamp of the first
    passing checkpoint.
    Advice: use the time at which that checkpoint was written.
    """
    stop, wanted = log.find_first_record(events.RUN_STOP), log.converged_at
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
    if (
        trained is not None and trained < MIN_TRAINED_SHARE * wanted <= 2 * counted
    ):  # blocks that end below half of it have another unit
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


@rule("log.disclosure", PublishedLog)
def disclosure(log: PublishedLog) -> Iterator[Fault]:
    """Numeric precision, parallelism and configuration are logged, with values from the round; from
    v6.1 on this is mandatory.

    Source: mlcommons/logging, training_6.0.0/common.yaml (optional) and training_6.1.0/common.yaml:
    mandatory disclosure.
    Advice: log each of the keys once.
    """
    wanted = log.round.disclosure
    if wanted is None or log.row is None:
        return
    values = {key: log.find_value(key) for key in wanted.keys if log.counts.get(key)}
    for key in wanted.keys if wanted.required else ():
        if key not in values:
            yield log.build_fault(f"no {key}", "a record")
    for key in sorted(key for key, value in values.items() if value is None):
        yield log.build_fault(f"{key} null", "a value", log.find_line(key))
    for violation in check_hyperparameter_constraints(
        wanted.constraints,
        {key: value for key, value in values.items() if isinstance(value, str | int | float)},
    ):
        yield log.build_fault(
            f"{violation.key} {format_short_value(violation.found)}",
            violation.required,
            log.find_line(violation.key),
        )
