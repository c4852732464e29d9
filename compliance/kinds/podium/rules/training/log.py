"""Check the structure of a training log: which events occur, how often, with which type and in
which order.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.kinds.podium.documents.training import (
    AFTER_RUN_EVENTS,
    HEADER_EVENTS,
    INIT_EVENTS,
    OPTIONAL_INIT_EVENTS,
    TrainingLog,
    is_logged_count,
)
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.rounds.settings import GLOBAL_BATCH_SIZE

SINGLE_EVENTS: Final = (
    *HEADER_EVENTS,
    *INIT_EVENTS,
    events.INIT_START,
    events.INIT_STOP,
    events.RUN_START,
    events.RUN_STOP,
)
INTERVAL_START_EVENTS: Final = frozenset(
    {events.INIT_START, events.RUN_START, events.BLOCK_START, events.EPOCH_START, events.EVAL_START}
)
INTERVAL_END_EVENTS: Final = frozenset(
    {events.INIT_STOP, events.RUN_STOP, events.BLOCK_STOP, events.EPOCH_STOP, events.EVAL_STOP}
)
SAMPLE_COUNTING_EVENTS: Final = frozenset(
    {
        events.BLOCK_START,
        events.BLOCK_STOP,
        events.EVAL_START,
        events.EVAL_ACCURACY,
        events.EVAL_STOP,
    }
)


@rule("training.once", TrainingLog, About.SCORE)
def once(log: TrainingLog) -> Iterator[Fault]:
    """Identity, header, facts and the events of initialisation and run occur exactly once, and
    cache_clear at least once.

    Source: mlcommons/logging 0.7.0/common.yaml, REQ: EXACTLY_ONE; house rule for podium's stamps.
    Advice: put the log of one run here, whole; logs of several runs are separate files.
    """
    for key in SINGLE_EVENTS:
        records = log.list_records(key)
        if len(records) != 1:
            line = records[1].line if records else None
            yield log.build_fault(f"{key}: {len(records)} records", "exactly 1", line)
    if not log.list_records(events.CACHE_CLEAR):
        yield log.build_fault("cache_clear: 0 records", "at least 1")


@rule("training.finished", TrainingLog, About.FORM)
def finished(log: TrainingLog) -> Iterator[Fault]:
    """A result's log has its final name. Its last event is run_stop or, after a success, the
    reference accuracy.

    Source: house rule: a log keeps the suffix .partial until its last line is written.
    Advice: the run was interrupted: resume it with --resume, or repeat it.
    """
    if log.path.suffix == ".partial":
        yield log.build_fault(f"the name {log.path.name}", "result_<n>.txt")
    if log.records and not log.list_records(events.RUN_STOP):
        yield log.build_fault(
            f"the log ends with {log.records[-1].key}", "run_stop", log.records[-1].line
        )


@rule("training.event_type", TrainingLog, About.FORM)
def event_type(log: TrainingLog) -> Iterator[Fault]:
    """Start events are INTERVAL_START and end events INTERVAL_END, both without a value. All others
    are POINT_IN_TIME.

    Source: mlcommons/logging, mllog.py: start, end, event.
    Advice: write events through podium's logger; mllog gives start events INTERVAL_START and end
    events INTERVAL_END.
    """
    for record in log.records:
        if record.key in INTERVAL_START_EVENTS:
            wanted = "INTERVAL_START"
        elif record.key in INTERVAL_END_EVENTS:
            wanted = "INTERVAL_END"
        else:
            wanted = "POINT_IN_TIME"
        if record.event.event_type != wanted:
            yield log.build_fault(
                f"{record.key} is a {record.event.event_type}", wanted, record.line
            )
        if (
            record.key in (*INTERVAL_START_EVENTS, *INTERVAL_END_EVENTS)
            and record.value is not None
        ):
            yield log.build_fault(f"{record.key} {record.value!r}", "null", record.line)


@rule("training.order", TrainingLog, About.FORM)
def order(log: TrainingLog) -> Iterator[Fault]:
    """Identity and header come first, then cache_clear and initialisation with hyperparameters and
    facts, then the run, then the reference accuracy.

    Source: mlcommons/logging 0.7.0/common.yaml; training_rules.adoc v0.7, Timing: hyperparameters
    are fixed before the clock starts.
    Advice: put the log of the whole run here, with its lines in the order of writing.
    """
    last, stage = None, -1
    for record in log.records:
        at = rank_log_stage(record)
        if at < stage and last is not None:
            yield log.build_fault(
                f"{record.key} after {last}", f"{record.key} before {last}", record.line
            )
        if at > stage:
            last, stage = record.key, at


def rank_log_stage(record: MllogRecord) -> int:
    """Return the part of the log that an event belongs to."""
    if record.key in HEADER_EVENTS:
        return 0
    if record.key == events.CACHE_CLEAR:
        return 1
    marks = {events.INIT_START: 2, events.INIT_STOP: 4, events.RUN_START: 5, events.RUN_STOP: 7}
    if record.key in marks:
        return marks[record.key]
    if record.key in AFTER_RUN_EVENTS:
        return 8
    if record.key in events.RUN_EVENTS or record.key in (
        events.THROUGHPUT,
        events.EXAMPLE,
        events.RESUMED,
    ):
        return 6
    return 3


@rule("training.nesting", TrainingLog, About.FORM)
def nesting(log: TrainingLog) -> Iterator[Fault]:
    """A block contains its epochs, an evaluation follows its block, and each interval ends before
    the next begins.

    Source: mlcommons/logging 0.7.0/common.yaml: block_start/stop, epoch_start/stop,
    eval_start/stop; house rule: strictly nested.
    Advice: put the log of the whole run here; if an event is missing there too, train again.
    """
    open_: list[MllogRecord] = []
    begun: Counter[str] = Counter()
    for record in log.records:
        name, _, edge = record.key.rpartition("_")
        if name not in ("block", "epoch", "eval"):
            continue
        if edge == "start":
            yield from check_interval_start(log, record, name, open_)
            open_.append(record)
            begun[record.key] += 1
        elif edge == "stop":
            yield from check_interval_end(log, record, name, open_, begun)
    if log.succeeded:
        yield from (
            log.build_fault(
                f"{record.key} has no end", f"{record.key.replace('start', 'stop')}", record.line
            )
            for record in open_
        )


def check_interval_start(
    log: TrainingLog, record: MllogRecord, name: str, open_: Sequence[MllogRecord]
) -> Iterator[Fault]:
    """Check the start of an interval: an epoch inside a block, a block or an evaluation outside
    other intervals.
    """
    around = open_[-1].key if open_ else None
    wanted = events.BLOCK_START if name == "epoch" else None
    if around != wanted:
        yield log.build_fault(
            f"{record.key} inside {around or 'no block'}",
            f"inside {wanted or 'nothing else'}",
            record.line,
        )


def check_interval_end(
    log: TrainingLog, record: MllogRecord, name: str, open_: list[MllogRecord], begun: Counter[str]
) -> Iterator[Fault]:
    """Check the end of an interval: the innermost open one, with the same number. `begun` counts
    open intervals by name, so that none is checked twice.
    """
    start = f"{name}_start"
    if not open_ or open_[-1].key != start:
        yield log.build_fault(
            f"{record.key} while {open_[-1].key if open_ else 'nothing'} is open",
            f"{start} before it",
            record.line,
        )
        while begun[start] and pop_innermost_interval(open_, begun).key != start:
            pass
        return
    first = pop_innermost_interval(open_, begun)
    field = events.FIRST_EPOCH_NUM if name == "block" else events.EPOCH_NUM
    numbers = first.event.metadata.get(field), record.event.metadata.get(field)
    if numbers[0] != numbers[1] or not is_logged_count(numbers[0]):
        yield log.build_fault(
            f"{record.key} of {numbers[1]}, {first.key} of {numbers[0]}",
            f"the same {field}",
            record.line,
        )


def pop_innermost_interval(open_: list[MllogRecord], begun: Counter[str]) -> MllogRecord:
    """Remove and return the innermost open interval."""
    record = open_.pop()
    begun[record.key] -= 1
    return record


@rule("training.epochs", TrainingLog, About.FORM)
def epochs(log: TrainingLog) -> Iterator[Fault]:
    """Epochs are numbered from 1 without gaps, and each block has the number of epochs that it
    states. If the row counts samples, each block and evaluation logs the samples trained so far:
    each epoch trains the same number, which is all of train_samples or whole batches of them.

    Source: mlcommons/logging 0.7.0/common.yaml, epoch_num, first_epoch_num, epoch_count;
    training_rules.adoc v0.7: epochs are numbered from 1; mlcommons/logging 5.1.0 to 6.1.0,
    common.yaml and closed_llama31_8b.yaml: samples_count; the row's counts_samples.
    Advice: put the log of the whole run here, with the epochs of all resumed parts; if one is
    missing there too, train again.
    """
    expected = 1
    due = 1
    for record in (
        record for record in log.records if record.key in (events.EPOCH_START, events.BLOCK_START)
    ):
        metadata = record.event.metadata
        if record.key == events.EPOCH_START:
            if metadata.get(events.EPOCH_NUM) != expected:
                yield log.build_fault(
                    f"epoch {metadata.get(events.EPOCH_NUM)}", f"epoch {expected}", record.line
                )
            number = metadata.get(events.EPOCH_NUM)
            expected = number + 1 if is_logged_count(number) else expected + 1
            continue
        if metadata.get(events.FIRST_EPOCH_NUM) != due or expected != due:
            yield log.build_fault(
                f"a block from epoch {metadata.get(events.FIRST_EPOCH_NUM)} after {expected - 1}"
                " epochs",
                f"from epoch {due}",
                record.line,
            )
        count = metadata.get(events.EPOCH_COUNT)
        due = expected + (count if is_logged_count(count) else 1)
    if log.succeeded and expected != due:
        yield log.build_fault(
            f"{expected - 1} epochs", f"{due - 1}, as the blocks state", events.RUN_STOP
        )
    yield from check_sample_counts(log)


def check_sample_counts(log: TrainingLog) -> Iterator[Fault]:
    """Check the samples trained so far, in a log whose row counts them."""
    samples = log.find_value(events.TRAIN_SAMPLES)
    if log.row is None or not log.row.counts_samples or not is_logged_count(samples):
        return
    trained_epochs, epoch_samples = 0, None
    for record in log.records:
        if record.key == events.EPOCH_STOP:
            trained_epochs += 1
        if record.key not in SAMPLE_COUNTING_EVENTS:
            continue
        count = record.event.metadata.get(events.SAMPLES_COUNT)
        if epoch_samples is None and trained_epochs:
            sizes = list_epoch_sizes(samples, log.find_value(GLOBAL_BATCH_SIZE))
            epoch_samples = next(
                (size for size in sizes if trained_epochs * size == count), samples
            )
        expected = trained_epochs * (epoch_samples or samples)
        if not is_logged_count(count) or count != expected:
            yield log.build_fault(
                f"{record.key} with samples_count {count!r} after {trained_epochs} epochs",
                f"samples_count {expected}",
                record.line,
            )


def list_epoch_sizes(samples: int, batch: object) -> tuple[int, ...]:
    """Return the numbers of samples that an epoch may train: all, or whole batches with the
    incomplete one left out or filled up.
    """
    if not is_logged_count(batch) or not batch:
        return (samples,)
    return samples, samples // batch * batch, math.ceil(samples / batch) * batch


@rule("training.unknown", TrainingLog, About.FORM, severity=Severity.WARNING)
def unknown_events(log: TrainingLog) -> Iterator[Fault]:
    """The round or the workload's row names every event in the log.

    Source: mlcommons/logging, mllog/constants.py; suite/events.py; the logged settings of the
    workload's row.
    Advice: add the hyperparameter to the workload's row, or correct its name.
    """
    known = {
        *SINGLE_EVENTS,
        *OPTIONAL_INIT_EVENTS,
        *AFTER_RUN_EVENTS,
        *events.RUN_EVENTS,
        events.CACHE_CLEAR,
        events.STEP_PREPARATION,
        events.THROUGHPUT,
        events.EXAMPLE,
        events.RESUMED,
    }
    known |= {key for key, setting in log.row.settings.items() if setting.log} if log.row else set()
    if log.training:
        known |= {*log.training.required, *(each.key for each in log.training.constraints)}
    for key in sorted(log.index.keys() - known):
        yield log.build_fault(f"the event '{key}'", "a name from the round", key)
