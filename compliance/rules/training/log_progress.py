"""Check the numbering and pairing of blocks, epochs and evaluations in a published training log."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.training.log import PROGRESS_FIELDS, PublishedLog
from compliance.documents.training.values import parse_metadata_numbers
from compliance.logs.mllog.published import PublishedRecord
from compliance.rules import rule
from compliance.rules.training.log_identity import format_short_value
from compliance.verdict import About, Fault, Severity
from suite import events

MAX_FRACTIONAL_GAP: Final = 1.0 - 1e-9
"""Blocks of fractional epochs leave a smaller gap than this to the next block's whole number."""


@rule("log.metadata", PublishedLog)
def metadata(log: PublishedLog) -> Iterator[Fault]:
    """Blocks log the number of their first epoch and their epoch count; epochs and evaluations log
    their epoch number.

    Source: mlcommons/logging, common.yaml: first_epoch_num, epoch_count > 0 and epoch_num in the
    metadata.
    Advice: log the numbers as the run counts them, from 1.
    """
    if log.older or log.row is None or log.free:
        return
    if not log.row.strict:
        yield from check_unnumbered_evaluations(log)
        return
    for key, told in log.epochs.items():
        for number, record in zip(told, log.list_records(key), strict=True):
            if number is None or number < 0:
                found = format_short_value(record.metadata.get(PROGRESS_FIELDS[key]))
                yield log.build_fault(
                    f"{key} with {PROGRESS_FIELDS[key]} {found}",
                    f"{PROGRESS_FIELDS[key]}: a number of at least 0",
                    record.line,
                )
    begun = log.list_records(events.BLOCK_START)
    for record, count in zip(begun, parse_metadata_numbers(begun, events.EPOCH_COUNT), strict=True):
        if count is None or count <= 0:
            found = (
                "block_start with epoch_count"
                f" {format_short_value(record.metadata.get(events.EPOCH_COUNT))}"
            )
            yield log.build_fault(found, "epoch_count: a number above 0", record.line)


def check_unnumbered_evaluations(log: PublishedLog) -> Iterator[Fault]:
    """Yield evaluations without an identifying number, for benchmarks that do not count epochs."""
    for record in log.list_records(events.EVAL_ACCURACY) if log.round.events.samples else ():
        if events.EPOCH_NUM not in record.metadata:
            yield log.build_fault(
                "eval_accuracy without epoch_num", "epoch_num in its metadata", record.line
            )


def select_numbered_records(
    log: PublishedLog, key: str
) -> tuple[Sequence[PublishedRecord], Sequence[float]]:
    """Return the records of an event that have a number, and the numbers."""
    found = [
        (record, epoch)
        for record, epoch in zip(log.list_records(key), log.epochs[key], strict=True)
        if epoch is not None
    ]
    return [record for record, _ in found], [epoch for _, epoch in found]


@rule("log.epochs", PublishedLog)
def epochs(log: PublishedLog) -> Iterator[Fault]:
    """Epochs are numbered consecutively from 0 or 1.

    Source: training_rules.adoc, Epoch numbering; no accepted log lacks an epoch.
    Advice: submit the log exactly as the run wrote it.
    """
    if log.row is None or not log.row.strict:
        return
    records, told = select_numbered_records(log, events.EPOCH_START)
    if told and told[0] not in (0, 1):
        yield log.build_fault(f"the first epoch is {told[0]:g}", "0 or 1", records[0].line)
    for record, before, now in zip(records[1:], told, told[1:], strict=False):
        if now != before + 1:
            yield log.build_fault(
                f"epoch {now:g} after epoch {before:g}", f"epoch {before + 1:g}", record.line
            )


@rule("log.blocks", PublishedLog)
def blocks(log: PublishedLog) -> Iterator[Fault]:
    """Each block begins where the previous one ends.

    Source: mlcommons/logging, training_0.6.0/common.yaml, block_start; a log that numbers all its
    blocks differently is accepted, and one whose blocks of several epochs begin one epoch late, as
    in some loggers, is a warning.
    Advice: submit the log exactly as the run wrote it.
    """
    if log.row is None or not log.row.strict:
        return
    records, firsts = select_numbered_records(log, events.BLOCK_START)
    counts = [count or 0.0 for count in parse_metadata_numbers(records, events.EPOCH_COUNT)]
    gaps = [
        now - before - count for before, count, now in zip(firsts, counts, firsts[1:], strict=False)
    ]
    odd = [index for index, gap in enumerate(gaps) if abs(gap) >= MAX_FRACTIONAL_GAP]
    for index, (before, now) in enumerate(zip(firsts, firsts[1:], strict=False)):
        if now <= before:
            yield log.build_fault(
                f"block {now:g} after block {before:g}", "a later block", records[index + 1].line
            )
        elif index in odd and len(odd) <= max(2, len(gaps) // 4):
            late = counts[index] > 1 and 0 < gaps[index] <= 1
            found = f"block {now:g} after block {before:g} of {counts[index]:g} epochs"
            yield log.build_fault(
                found,
                f"block {before + counts[index]:g}",
                records[index + 1].line,
                Severity.WARNING if late else None,
            )


@rule("log.unevaluated", PublishedLog)
def unevaluated(log: PublishedLog) -> Iterator[Fault]:
    """Each completed block is evaluated, except possibly the last one of a failed run.

    Source: mlcommons/logging, mllog/constants.py: a block is the training between two evaluations;
    this holds in every accepted log.
    Advice: log every evaluation, whatever its result.
    """
    if log.row is None or not log.row.strict:
        return
    ends = log.list_records(events.BLOCK_STOP)
    begun = max(
        len(log.list_records(events.EVAL_START)), len(log.list_records(events.EVAL_ACCURACY))
    )
    if begun < len(ends) - (not log.succeeded):
        yield log.build_fault(
            f"{begun} evaluations of {len(ends)} blocks",
            "one evaluation for each block",
            ends[-1].line,
        )


@rule("log.paired", PublishedLog)
def paired(log: PublishedLog) -> Iterator[Fault]:
    """Each block, epoch and evaluation that starts also ends, in the same order; only the last ones
    of a run may stay open.

    Source: mlcommons/logging, training_0.6.0/common.yaml; accepted logs leave the last block or
    epoch and up to three evaluations open.
    Advice: submit the log exactly as the run wrote it; a gap in the middle means that an event was
    removed.
    """
    if log.row is None or not log.row.strict:
        return
    rules = log.round.rules
    for start, stop, allowed in (
        (events.BLOCK_START, events.BLOCK_STOP, rules.open_blocks),
        (events.EPOCH_START, events.EPOCH_STOP, rules.open_blocks),
        (events.EVAL_START, events.EVAL_STOP, rules.open_evaluations),
        (events.EVAL_START, events.EVAL_ACCURACY, rules.open_evaluations),
    ):
        yield from check_event_pairs(log, start, stop, 0 if log.older else allowed)
    scores, ends = log.list_records(events.EVAL_ACCURACY), log.list_records(events.EVAL_STOP)
    if log.list_records(events.EVAL_START) and len(ends) < len(scores) - 1:
        yield log.build_fault(
            f"{len(ends)} eval_stop for {len(scores)} eval_accuracy",
            "one for each, except the last",
            scores[-1].line,
        )


def check_event_pairs(log: PublishedLog, start: str, stop: str, allowed: int) -> Iterator[Fault]:
    """Yield stops that do not match the starts, in order, except for the last few."""
    starts, stops = log.list_records(start), log.list_records(stop)
    if not starts and stop == events.EVAL_ACCURACY:
        return  # only the accuracy: some accepted logs mark no evaluations
    loose = log.round.rules.loose
    if loose and not stops and start == events.EPOCH_START:
        return  # accepted logs that mark only the starts of epochs
    befores, afters = log.epochs[start], log.epochs[stop]
    alike = befores[: len(afters)] == afters
    if len(stops) > len(starts):
        yield log.build_fault(
            f"{len(stops)} {stop} for {len(starts)} {start}", "one each", stops[-1].line
        )
    elif len(starts) - len(stops) > allowed:
        flying = (
            alike
            and start != events.EVAL_START
            and len(starts) - len(stops) <= max(allowed, len(stops) // 2)
        )
        weight = Severity.WARNING if flying else None
        yield log.build_fault(
            f"{len(stops)} {stop} for {len(starts)} {start}",
            f"at most {allowed} of them open, at the end",
            starts[-1].line,
            weight,
        )
    elif not alike and not has_accepted_numbering(befores[: len(afters)], afters, stop, loose):
        index = next(
            index
            for index, (begun, ended) in enumerate(zip(befores, afters, strict=False))
            if begun != ended
        )
        found = (
            f"{stop} {format_epoch_number(afters[index])} for {start}"
            f" {format_epoch_number(befores[index])}"
        )
        between = all(
            ended.order < following.order
            for ended, following in zip(stops, starts[1:], strict=False)
        )
        weight = (
            Severity.WARNING
            if between and is_renumbered_throughout(starts, befores[: len(afters)], afters, stop)
            else None
        )
        yield log.build_fault(found, "the same number as its start", stops[index].line, weight)
    for begun, ended in zip(starts, stops, strict=False):
        if ended.time_ns < begun.time_ns or ended.order < begun.order:
            yield log.build_fault(
                f"{ended.key} before its {begun.key} in line {begun.line}",
                "an end after its start",
                ended.line,
            )


def is_renumbered_throughout(
    starts: Sequence[PublishedRecord],
    befores: Sequence[float | None],
    afters: Sequence[float | None],
    stop: str,
) -> bool:
    """Return whether ends are counted differently from their starts throughout: evaluations by one,
    blocks by their end.
    """
    if None in befores or None in afters or stop == events.EPOCH_STOP:
        return False
    gaps = [(after or 0.0) - (before or 0.0) for before, after in zip(befores, afters, strict=True)]
    if stop == events.BLOCK_STOP:
        counts = [count or 0.0 for count in parse_metadata_numbers(starts, events.EPOCH_COUNT)][
            : len(gaps)
        ]
        return any(
            [gap - count for gap, count in zip(gaps, counts, strict=True)] == [by] * len(gaps)
            for by in (0.0, -1.0)
        )
    by = next((gap for gap in gaps if gap), 0.0)
    odd = [gap for gap in gaps if gap]
    return abs(by) == 1 and set(odd) == {by} and 2 * len(odd) > len(gaps)


def has_accepted_numbering(
    befores: Sequence[float | None], afters: Sequence[float | None], stop: str, loose: bool
) -> bool:
    """Return whether the log has one of three accepted numbering quirks:

    - ends have no numbers,
    - blocks end as if counted from 0,
    - the first evaluation counts for two, and all are one behind.
    """
    if None in befores or None in afters:
        return loose and {None} in (set(befores), set(afters))
    gaps = [(before or 0) - (after or 0) for before, after in zip(befores, afters, strict=True)]
    if stop == events.BLOCK_STOP:
        return afters[0] == 0 and set(gaps) == {1.0}
    behind = len(afters) > 1 and afters[0] == afters[1] and gaps == [0, *[1] * (len(gaps) - 1)]
    return stop != events.EPOCH_STOP and behind


def format_epoch_number(value: float | None) -> str:
    """Format an epoch number."""
    return "without a number" if value is None else f"{value:g}"


@rule("log.evaluated", PublishedLog)
def evaluated(log: PublishedLog) -> Iterator[Fault]:
    """Evaluations are in the order of their epochs, each occurs once, and none precedes its epoch.

    Source: training_rules.adoc, Quality measure; mlcommons/logging, training_0.6.0/common.yaml,
    eval_start.
    Advice: submit the log exactly as the run wrote it.
    """
    if log.row is None or not log.row.strict:
        return
    numbers = log.epochs[events.EVAL_ACCURACY]
    again = (
        len(numbers) > 1 and numbers[0] == numbers[1] and bool(log.list_records(events.EVAL_START))
    )
    for key in (events.EVAL_START, events.EVAL_ACCURACY):
        records, epochs = log.list_records(key), log.epochs[key]
        for index, (early, late) in enumerate(zip(epochs, epochs[1:], strict=False)):
            twice = again and key == events.EVAL_ACCURACY and index == 0
            if early is not None and late is not None and late <= early and not twice:
                yield log.build_fault(
                    f"{key} of epoch {late:g} after that of epoch {early:g}",
                    "a later epoch",
                    records[index + 1].line,
                )
    yield from check_untrained_epochs(log)


def check_untrained_epochs(log: PublishedLog) -> Iterator[Fault]:
    """Yield evaluations of epochs that had not begun; evaluations may be counted from 1 if epochs
    are counted from 0.
    """
    begun = [
        (record.order, epoch)
        for record, epoch in zip(
            log.list_records(events.EPOCH_START), log.epochs[events.EPOCH_START], strict=True
        )
        if epoch is not None
    ]
    lines = [line for line, _ in begun]
    for record, epoch in zip(
        log.list_records(events.EVAL_START), log.epochs[events.EVAL_START], strict=True
    ):
        last = bisect_left(lines, record.order)
        if last and epoch is not None and epoch > begun[last - 1][1] + 1:
            yield log.build_fault(
                f"evaluation of epoch {epoch:g} in epoch {begun[last - 1][1]:g}",
                "an epoch with training",
                record.line,
            )


@rule(
    "log.schedule",
    PublishedLog,
    about=About.RULES,
    doubt="when the target was reached",
)
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
            latest = (
                scheduled[index]
                if index < len(scheduled)
                else before + scheduled[-1] - scheduled[-2]
            ) + row.evaluation_slack_epochs
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
            found,
            f"an evaluation every {row.evaluate_every_epochs} epochs",
            log.find_line(events.RUN_STOP),
        )
