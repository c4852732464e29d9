"""The structure of a training log: which events occur, how often, of which type and in which
order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.podium.training import (
    AFTER,
    FACTS,
    HEADER,
    SOME_FACTS,
    TrainingLog,
    is_count,
)
from compliance.logs.mllog.mllog_lines import Record
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite import events

ONCE: Final = (
    *HEADER,
    *FACTS,
    events.INIT_START,
    events.INIT_STOP,
    events.RUN_START,
    events.RUN_STOP,
)
STARTS: Final = frozenset(
    {events.INIT_START, events.RUN_START, events.BLOCK_START, events.EPOCH_START, events.EVAL_START}
)
ENDS: Final = frozenset(
    {events.INIT_STOP, events.RUN_STOP, events.BLOCK_STOP, events.EPOCH_STOP, events.EVAL_STOP}
)


@rule("training.once", TrainingLog)
def once(log: TrainingLog) -> Iterator[Fault]:
    """Identity, header, facts and the events of initialisation and run occur exactly once,
    cache_clear at least once.

    Source: mlcommons/logging 0.7.0/common.yaml, REQ: EXACTLY_ONE; house rule for podium's stamps.
    Advice: submit the log exactly as the run wrote it; a missing or duplicate event was edited or
    cut.
    """
    for key in ONCE:
        records = log.all(key)
        if len(records) != 1:
            line = records[1].line if records else None
            yield log.fault(f"{key}: {len(records)} records", "exactly 1", line)
    if not log.all(events.CACHE_CLEAR):
        yield log.fault("cache_clear: 0 records", "at least 1")


@rule("training.finished", TrainingLog)
def finished(log: TrainingLog) -> Iterator[Fault]:
    """A result's log has its final name and ends with run_stop or, after a success, with the
    reference accuracy.

    Source: house rule: a log keeps the suffix .partial until its last line is written.
    Advice: the run was interrupted: resume it with --resume, or repeat it.
    """
    if log.path.suffix == ".partial":
        yield log.fault(f"the name {log.path.name}", "result_<n>.txt")
    if log.records and not log.all(events.RUN_STOP):
        yield log.fault(
            f"the log ends with {log.records[-1].key}", "run_stop", log.records[-1].line
        )


@rule("training.event_type", TrainingLog)
def event_type(log: TrainingLog) -> Iterator[Fault]:
    """Start events are INTERVAL_START, end events INTERVAL_END, both without a value; all others
    are POINT_IN_TIME.

    Source: mlcommons/logging, mllog.py: start, end, event.
    Advice: submit the log exactly as the run wrote it.
    """
    for record in log.records:
        wanted = (
            "INTERVAL_START"
            if record.key in STARTS
            else "INTERVAL_END"
            if record.key in ENDS
            else "POINT_IN_TIME"
        )
        if record.event.event_type != wanted:
            yield log.fault(f"{record.key} is a {record.event.event_type}", wanted, record.line)
        if record.key in (*STARTS, *ENDS) and record.value is not None:
            yield log.fault(f"{record.key} {record.value!r}", "null", record.line)


@rule("training.order", TrainingLog)
def order(log: TrainingLog) -> Iterator[Fault]:
    """Identity and header come first, then cache_clear and initialisation with hyperparameters and
    facts, then the run, then the reference accuracy.

    Source: mlcommons/logging 0.7.0/common.yaml; training_rules.adoc v0.7, Timing: hyper-parameters
    are fixed before the clock starts.
    Advice: submit the log exactly as the run wrote it.
    """
    last, stage = None, -1
    for record in log.records:
        at = stage_of(record)
        if at < stage and last is not None:
            yield log.fault(
                f"{record.key} after {last}", f"{record.key} before {last}", record.line
            )
        if at > stage:
            last, stage = record.key, at


def stage_of(record: Record) -> int:
    """Say in which part of the log an event stands."""
    if record.key in HEADER:
        return 0
    if record.key == events.CACHE_CLEAR:
        return 1
    marks = {events.INIT_START: 2, events.INIT_STOP: 4, events.RUN_START: 5, events.RUN_STOP: 7}
    if record.key in marks:
        return marks[record.key]
    if record.key in AFTER:
        return 8
    return (
        6
        if record.key in events.RUN_EVENTS
        or record.key in (events.THROUGHPUT, events.EXAMPLE, events.RESUMED)
        else 3
    )


@rule("training.nesting", TrainingLog)
def nesting(log: TrainingLog) -> Iterator[Fault]:
    """A block contains its epochs, an evaluation follows its block, and each interval ends before
    the next begins.

    Source: mlcommons/logging 0.7.0/common.yaml: block_start/stop, epoch_start/stop,
    eval_start/stop; house rule: strictly nested.
    Advice: submit the log exactly as the run wrote it; a missing event was deleted.
    """
    open_: list[Record] = []
    begun: Counter[str] = Counter()
    for record in log.records:
        name, _, edge = record.key.rpartition("_")
        if name not in ("block", "epoch", "eval"):
            continue
        if edge == "start":
            yield from opening(log, record, name, open_)
            open_.append(record)
            begun[record.key] += 1
        elif edge == "stop":
            yield from closing(log, record, name, open_, begun)
    if log.succeeded:
        yield from (
            log.fault(
                f"{record.key} has no end", f"{record.key.replace('start', 'stop')}", record.line
            )
            for record in open_
        )


def opening(
    log: TrainingLog, record: Record, name: str, open_: Sequence[Record]
) -> Iterator[Fault]:
    """Judge what begins: an epoch in a block, a block or an evaluation on its own."""
    around = open_[-1].key if open_ else None
    wanted = events.BLOCK_START if name == "epoch" else None
    if around != wanted:
        yield log.fault(
            f"{record.key} inside {around or 'no block'}",
            f"inside {wanted or 'nothing else'}",
            record.line,
        )


def closing(
    log: TrainingLog, record: Record, name: str, open_: list[Record], begun: Counter[str]
) -> Iterator[Fault]:
    """Judge what ends: the innermost that is open, of the same number; `begun` counts what is open
    by name, so that none is looked at twice.
    """
    start = f"{name}_start"
    if not open_ or open_[-1].key != start:
        yield log.fault(
            f"{record.key} while {open_[-1].key if open_ else 'nothing'} is open",
            f"{start} before it",
            record.line,
        )
        while begun[start] and end_innermost(open_, begun).key != start:
            pass
        return
    first = end_innermost(open_, begun)
    field = events.FIRST_EPOCH_NUM if name == "block" else events.EPOCH_NUM
    numbers = first.event.metadata.get(field), record.event.metadata.get(field)
    if numbers[0] != numbers[1] or not is_count(numbers[0]):
        yield log.fault(
            f"{record.key} of {numbers[1]}, {first.key} of {numbers[0]}",
            f"the same {field}",
            record.line,
        )


def end_innermost(open_: list[Record], begun: Counter[str]) -> Record:
    """Take the innermost mark that is open."""
    record = open_.pop()
    begun[record.key] -= 1
    return record


@rule("training.epochs", TrainingLog)
def epochs(log: TrainingLog) -> Iterator[Fault]:
    """Epochs are numbered from 1 without gaps, and each block has the number of epochs that it
    states.

    Source: mlcommons/logging 0.7.0/common.yaml, epoch_num, first_epoch_num, epoch_count;
    training_rules.adoc v0.7: epochs are numbered from 1.
    Advice: submit the log exactly as the run wrote it; a missing epoch was deleted.
    """
    expected = 1
    due = 1
    for record in (
        record for record in log.records if record.key in (events.EPOCH_START, events.BLOCK_START)
    ):
        metadata = record.event.metadata
        if record.key == events.EPOCH_START:
            if metadata.get(events.EPOCH_NUM) != expected:
                yield log.fault(
                    f"epoch {metadata.get(events.EPOCH_NUM)}", f"epoch {expected}", record.line
                )
            number = metadata.get(events.EPOCH_NUM)
            expected = number + 1 if is_count(number) else expected + 1
            continue
        if metadata.get(events.FIRST_EPOCH_NUM) != due or expected != due:
            yield log.fault(
                f"a block from epoch {metadata.get(events.FIRST_EPOCH_NUM)} after {expected - 1}"
                " epochs",
                f"from epoch {due}",
                record.line,
            )
        count = metadata.get(events.EPOCH_COUNT)
        due = expected + (count if is_count(count) else 1)
    if log.succeeded and expected != due:
        yield log.fault(
            f"{expected - 1} epochs", f"{due - 1}, as the blocks say", log.line(events.RUN_STOP)
        )


@rule("training.unknown", TrainingLog, severity=Severity.WARNING)
def unknown_events(log: TrainingLog) -> Iterator[Fault]:
    """The round or the workload's row names every event.

    Source: mlcommons/logging, mllog/constants.py; suite/events.py; the settings of the workload's
    row that are logged.
    Advice: add the hyperparameter to the workload's row, or correct its name.
    """
    known = {
        *ONCE,
        *SOME_FACTS,
        *AFTER,
        *events.RUN_EVENTS,
        events.CACHE_CLEAR,
        events.THROUGHPUT,
        events.EXAMPLE,
        events.RESUMED,
    }
    known |= {key for key, setting in log.row.settings.items() if setting.log} if log.row else set()
    known |= (
        {*log.training.required, *(constraint.key for constraint in log.training.constraints)}
        if log.training
        else set()
    )
    for key in sorted(log.index.keys() - known):
        yield log.fault(f"the event '{key}'", "a name that the round knows", log.line(key))
