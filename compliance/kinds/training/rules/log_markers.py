"""Check the form of a published training log: how it marks and numbers blocks, epochs and
evaluations, and the order of its lines.

Loggers differ: work begins before an evaluation has ended, ends are reported after the run, numbers
start at 0 or 1 or count samples. None of it changes the time of a run or the evaluation that
counts, so nothing here is more than a warning.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from compliance.kinds.training.documents.evaluations import parse_run_progress
from compliance.kinds.training.documents.log import PROGRESS_FIELDS, PublishedLog
from compliance.kinds.training.logs.published import PublishedRecord
from compliance.kinds.training.rules.log_clock import (
    EARLIEST_CLOCK_NS,
    format_ns_as_seconds,
    list_early_records,
)
from compliance.kinds.training.rules.log_identity import find_other_result_event, format_short_value
from compliance.logs.finite_numbers import is_finite_number, parse_finite_number
from compliance.rules import rule
from compliance.verdict import Fault
from suite import events

MAX_REPORTED: Final = 3
"""Findings of one kind in a log, so that one cause is not reported a thousand times."""
PROGRESS_UNITS: Final = (events.FIRST_EPOCH_NUM, events.EPOCH_NUM, events.SAMPLES_COUNT, "step_num")
"""Metadata fields that number a block, an epoch or an evaluation."""
MARKED_WORK: Final = (
    (events.BLOCK_START, events.BLOCK_STOP),
    (events.EPOCH_START, events.EPOCH_STOP),
    (events.EVAL_START, events.EVAL_STOP),
    (events.EVAL_START, events.EVAL_ACCURACY),
)


def find_number(record: PublishedRecord) -> float | None:
    """Return the number of a block, an epoch or an evaluation; None if it has none."""
    return parse_run_progress(record, PROGRESS_UNITS)


@rule("log.metadata", PublishedLog)
def metadata(log: PublishedLog) -> Iterator[Fault]:
    """Blocks, epochs and evaluations log their position in the run: a number of at least 0.

    Source: mlcommons/logging, common.yaml: first_epoch_num, epoch_count > 0 and epoch_num in the
    metadata; closed_<benchmark>.yaml: epoch_num or samples_count of eval_accuracy.
    Advice: log the number with each of them, in the benchmark's unit.
    """
    if log.older or log.row is None or not log.row.data_set:
        return
    wanted = log.row.progress or (events.EPOCH_NUM,)
    found = [
        (record, field)
        for key in PROGRESS_FIELDS
        for record in log.list_records(key)
        for field in (wanted if key == events.EVAL_ACCURACY else PROGRESS_UNITS,)
        if not has_number(record, field)
    ]
    for record, fields in found[:MAX_REPORTED]:
        stated = next((record.metadata[name] for name in fields if name in record.metadata), None)
        yield log.build_fault(
            f"{record.key} with {fields[0]} {format_short_value(stated)}"
            + describe_repetition(len(found)),
            f"{' or '.join(fields)}: a number of at least 0",
            record.line,
        )
    for record in log.list_records(events.BLOCK_START):
        count = record.metadata.get(events.EPOCH_COUNT, 1)
        if not is_finite_number(count) or count <= 0:
            yield log.build_fault(
                f"block_start with epoch_count {format_short_value(count)}",
                "epoch_count: a number above 0",
                record.line,
            )
            return


def has_number(record: PublishedRecord, fields: Sequence[str]) -> bool:
    """Return whether one of the fields is a number of at least 0, not a text."""
    for name in fields:
        if name in record.metadata:
            stated = record.metadata[name]
            return is_finite_number(stated) and stated >= 0
    return False


def describe_repetition(count: int) -> str:
    """Describe how often a finding occurs in a log, if it is not always shown."""
    if count > MAX_REPORTED:
        return f" ({count} times)"
    return ""


@rule("log.paired", PublishedLog)
def paired(log: PublishedLog) -> Iterator[Fault]:
    """Each block, epoch and evaluation that starts also ends, under the same number and after its
    start. Only the last ones of a run may stay open. Where the number is that of the samples
    trained so far, an end may have the number of where it ended, or one that differs by the same
    offset throughout.

    Source: mlcommons/logging, training_0.6.0/common.yaml; accepted logs leave the last block or
    epoch and up to three evaluations open.
    Advice: log both the start and the end of each block, epoch and evaluation, with the same
    number.
    """
    if log.row is None or not log.row.data_set or log.row.evaluated_later:
        return
    for start, stop in MARKED_WORK:
        starts, stops = log.list_records(start), log.list_records(stop)
        if stop == events.EVAL_ACCURACY and (copies := log.result_copies) > 1:
            yield build_copied_results_fault(log, stops, copies)
        elif starts and stops:
            yield from check_pairs(log, starts, stops)
        elif starts and start != events.EPOCH_START and not find_other_result_event(log):
            yield log.build_fault(
                f"{len(starts)} {start} without any {stop}", "an end of each", starts[0].line
            )
    if log.list_records(events.EPOCH_STOP) and not log.list_records(events.EPOCH_START):
        yield log.build_fault("epoch_stop without any epoch_start", "the start of each epoch")


def build_copied_results_fault(
    log: PublishedLog, results: Sequence[PublishedRecord], copies: int
) -> Fault:
    """Build the fault for a log in which each result stands once per process."""
    return log.build_fault(
        f"each {results[0].key} stands {copies} times",
        "one result for each evaluation",
        results[1].line,
        advice="log evaluations from rank 0 alone; the result is not affected.",
    )


def check_pairs(
    log: PublishedLog, starts: Sequence[PublishedRecord], stops: Sequence[PublishedRecord]
) -> Iterator[Fault]:
    """Yield how the ends of blocks, epochs or evaluations differ from their starts."""
    start, stop = starts[0].key, stops[0].key
    rules = log.round.rules
    if start == events.EVAL_START:
        open_at_end = rules.open_evaluations
    else:
        open_at_end = rules.open_blocks
    if not 0 <= len(starts) - len(stops) <= open_at_end:
        yield log.build_fault(
            f"{len(stops)} {stop} for {len(starts)} {start}",
            f"one each; at most {open_at_end} open at the end",
            starts[-1].line,
        )
        return
    begun, ended = list(map(find_number, starts)), list(map(find_number, stops))
    if None in begun or None in ended:
        yield from check_alternation(log, starts, stops)
    elif not is_paired_by_samples(starts, stops):
        yield from check_equal_numbers(log, starts, begun, stops, ended)
    for before, after in zip(starts, stops, strict=False):
        if after.time_ns < before.time_ns or after.order < before.order:
            yield log.build_fault(
                f"{stop} before its {start} in line {before.line}",
                "an end after its start",
                after.line,
            )
            return


def check_equal_numbers(
    log: PublishedLog,
    starts: Sequence[PublishedRecord],
    begun: Sequence[float | None],
    stops: Sequence[PublishedRecord],
    ended: Sequence[float | None],
) -> Iterator[Fault]:
    """Yield the starts whose number no end has, but those of work that may be open."""
    unfinished = set(begun[len(ended) :])
    odd = [each for each in Counter(begun) - Counter(ended) if each not in unfinished]
    if odd:
        yield log.build_fault(
            f"{starts[0].key} at {odd[0]:.12g} without its {stops[0].key}"
            + describe_repetition(len(odd)),
            "an end under the same number",
            starts[begun.index(odd[0])].line,
        )


def is_paired_by_samples(
    starts: Sequence[PublishedRecord], stops: Sequence[PublishedRecord]
) -> bool:
    """Return whether the samples trained so far pair ends with starts that have other numbers: the
    end of a block or epoch is counted where it ended, at or before the next start, or all ends are
    apart from their starts by one offset that is shorter than a block.
    """
    first = [parse_run_progress(each, (events.SAMPLES_COUNT,)) for each in starts]
    last = [parse_run_progress(each, (events.SAMPLES_COUNT,)) for each in stops]
    if None in first or None in last or len(last) > len(first):
        return False
    begun, ended = [each or 0.0 for each in first], [each or 0.0 for each in last]
    pairs = list(zip(begun, ended, strict=False))
    in_turn = (
        starts[0].key != events.EVAL_START
        and all(start <= stop for start, stop in pairs)
        and all(stop <= start for stop, start in zip(ended, begun[1:], strict=False))
    )
    offsets = {stop - start for start, stop in pairs}
    shortest = min((after - before for before, after in pairwise(begun)), default=0.0)
    return in_turn or (len(offsets) == 1 and abs(min(offsets)) < shortest)


def check_alternation(
    log: PublishedLog, starts: Sequence[PublishedRecord], stops: Sequence[PublishedRecord]
) -> Iterator[Fault]:
    """Yield the first two starts, or ends, in a row of work without numbers."""
    marks = sorted((*starts, *stops), key=get_file_order)
    for before, after in pairwise(marks):
        if before.key == after.key:
            yield log.build_fault(
                f"{after.key} after {before.key} in line {before.line}",
                f"{starts[0].key} and {stops[0].key} by turns",
                after.line,
            )
            return


def get_file_order(record: PublishedRecord) -> int:
    """Return the position of a record in its file."""
    return record.order


@rule("log.epochs", PublishedLog)
def epochs(log: PublishedLog) -> Iterator[Fault]:
    """Blocks, epochs and evaluations are numbered in ascending order, epochs and blocks without a
    gap, and no evaluation precedes the training of its epoch.

    Source: training_rules.adoc, Epoch numbering and Quality measure; mlcommons/logging,
    training_0.6.0/common.yaml, block_start and eval_start.
    Advice: number epochs and blocks from the first one up in your logging code, and put the logs of
    all resumed parts together.
    """
    row = log.row
    if row is None or not row.data_set or row.evaluated_later:
        return
    fields = row.progress or (events.EPOCH_NUM,)
    ascending = (
        (events.BLOCK_START, (events.FIRST_EPOCH_NUM,)),
        (events.EPOCH_START, (events.EPOCH_NUM,)),
        (events.EVAL_START, PROGRESS_UNITS),
        (events.EVAL_ACCURACY, fields),
    )
    for key, units in ascending:
        numbered = [
            (record, number)
            for record in log.list_records(key)
            if (number := parse_run_progress(record, units)) is not None
        ]
        if key != events.EVAL_ACCURACY or log.result_copies == 1:
            yield from check_ascent(log, numbered)
        if row.strict and key in (events.BLOCK_START, events.EPOCH_START):
            yield from check_gaps(log, numbered)
    if row.strict:
        yield from check_untrained_epochs(log)


def check_ascent(
    log: PublishedLog, numbered: Sequence[tuple[PublishedRecord, float]]
) -> Iterator[Fault]:
    """Yield numbers that do not ascend."""
    odd = [
        (early, late, record)
        for (_, early), (record, late) in zip(numbered, numbered[1:], strict=False)
        if late <= early
    ]
    for early, late, record in odd[:MAX_REPORTED]:
        yield log.build_fault(
            f"{record.key} {late:.12g} after {early:.12g}" + describe_repetition(len(odd)),
            "a later one",
            record.line,
        )


def check_gaps(
    log: PublishedLog, numbered: Sequence[tuple[PublishedRecord, float]]
) -> Iterator[Fault]:
    """Yield blocks and epochs that do not begin where those before them end."""
    if numbered and numbered[0][0].key == events.EPOCH_START and numbered[0][1] not in (0, 1):
        record, number = numbered[0]
        yield log.build_fault(f"the first epoch is {number:g}", "0 or 1", record.line)
    odd = [
        (early, count, record, late)
        for (before, early), (record, late) in zip(numbered, numbered[1:], strict=False)
        for count in (parse_finite_number(before.metadata.get(events.EPOCH_COUNT, 1)) or 0.0,)
        if abs(late - early - count) >= 1
    ]
    for early, count, record, late in odd[:MAX_REPORTED]:
        yield log.build_fault(
            f"{record.key} {late:g} after {early:g}" + describe_repetition(len(odd)),
            f"{early + count:g}",
            record.line,
        )


def check_untrained_epochs(log: PublishedLog) -> Iterator[Fault]:
    """Yield an evaluation of an epoch that had not begun; evaluations may be counted from 1 if
    epochs are counted from 0.
    """
    last: float | None = None
    for record in log.run:
        if record.key not in (events.EPOCH_START, events.EVAL_START):
            continue
        number = parse_run_progress(record, (events.EPOCH_NUM,))
        if number is None:
            continue
        if record.key == events.EPOCH_START:
            last = number
        elif record.key == events.EVAL_START and last is not None and number > last + 1:
            yield log.build_fault(
                f"evaluation of epoch {number:g} in epoch {last:g}",
                "an epoch with training",
                record.line,
            )
            return


@rule("log.unevaluated", PublishedLog)
def unevaluated(log: PublishedLog) -> Iterator[Fault]:
    """Each completed block is evaluated, except possibly the last one of a failed run.

    Source: mlcommons/logging, mllog/constants.py: a block is the training between two evaluations.
    Advice: log every evaluation, whatever its result.
    """
    if log.row is None or not log.row.strict:
        return
    ends = log.list_records(events.BLOCK_STOP)
    begun = max(log.counts.get(events.EVAL_START, 0), log.counts.get(events.EVAL_ACCURACY, 0))
    if begun < len(ends) - (not log.succeeded):
        yield log.build_fault(
            f"{begun} evaluations of {len(ends)} blocks",
            "one evaluation for each block",
            ends[-1].line,
        )


@rule("log.clock", PublishedLog)
def clock(log: PublishedLog) -> Iterator[Fault]:
    """Events have times from a clock that was set, and times never decrease from one line to the
    next.

    Source: training_rules.adoc, Run Results: the clock may not be paused; logs that mix the lines
    of several processes have times that decrease.
    Advice: use one clock that nobody sets during a run, and let one process write the log.
    """
    odd = [
        (before, record)
        for before, record in zip(log.run, log.run[1:], strict=False)
        if EARLIEST_CLOCK_NS <= record.time_ns < before.time_ns
    ]
    for before, record in odd[:MAX_REPORTED]:
        yield log.build_fault(
            f"{record.key} {format_ns_as_seconds(before.time_ns - record.time_ns)} before"
            f" {before.key} in line {before.line}" + describe_repetition(len(odd)),
            "times that never decrease",
            record.line,
        )
    unset = next((record for record in log.run if record.time_ns < EARLIEST_CLOCK_NS), None)
    if unset:
        yield log.build_fault(
            f"{unset.key} at {format_ns_as_seconds(unset.time_ns)}",
            "a time from a clock that was set",
            unset.line,
        )


@rule("log.order", PublishedLog)
def order(log: PublishedLog) -> Iterator[Fault]:
    """The events are in this order in the file and by the clock: the start of initialisation, its
    end, the start of the run, its blocks, epochs and evaluations, its end.

    Source: training_rules.adoc, Run Results; mlcommons/logging, common.yaml: init_start before
    init_stop before run_start before run_stop.
    Advice: log init_start, init_stop, run_start, then blocks, epochs and evaluations, then
    run_stop, each when it happens.
    """
    if log.older:
        return
    keys = (events.INIT_START, events.INIT_STOP, events.RUN_START, events.RUN_STOP)
    found = [record for record in map(log.find_record, keys) if record]
    for before, after in zip(found, found[1:], strict=False):
        if before.order > after.order or before.time_ns > after.time_ns:
            yield log.build_fault(
                f"{before.key} after {after.key} in line {after.line}",
                "the reverse order",
                before.line,
            )
    start = log.find_record(events.RUN_START)
    late = [
        record
        for record in log.list_records(events.INIT_START)
        if start and record.time_ns >= start.time_ns and record.order > start.order
    ]
    if late and start and late[0] is not found[0]:
        yield log.build_fault(
            f"init_start after run_start in line {start.line}",
            "initialisation before the run",
            late[0].line,
        )
    if early := list_early_records(log):
        yield log.build_fault(
            f"{early[0].key} before run_start" + describe_repetition(len(early)),
            "no work of the run before its start",
            early[0].line,
        )


@rule("log.after", PublishedLog)
def after(log: PublishedLog) -> Iterator[Fault]:
    """No block, epoch or evaluation begins or ends after run_stop.

    Source: training_rules.adoc, Run Results and Quality measure; the loggers of accepted logs work
    ahead of the evaluation, so the clock and the evaluation that counts are clear.
    Advice: stop the clock when the last evaluation is done, and train no further.
    """
    stop = log.find_record(events.RUN_STOP)
    if stop is None or log.row is None or not log.row.data_set or log.row.evaluated_later:
        return
    behind = [record for record in log.run if record.order > stop.order]
    for key, count in Counter(record.key for record in behind).items():
        first = next(record for record in behind if record.key == key)
        yield log.build_fault(
            f"{key} after run_stop" + (f" ({count} times)" if count > 1 else ""),
            "no events of the run after its end",
            first.line,
        )
