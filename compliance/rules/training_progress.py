"""How a run went on: what a resumed run makes void, and what is told of loss and throughput."""

from collections.abc import Iterator
from typing import Final

from compliance.documents.training import TrainingLog, finite, is_count
from compliance.logs.mllog import Record
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite import events

VOID_EVENTS: Final = frozenset(
    {
        events.BLOCK_START,
        events.BLOCK_STOP,
        events.EPOCH_START,
        events.EPOCH_STOP,
        events.EVAL_START,
        events.EVAL_STOP,
        events.EVAL_ACCURACY,
        events.THROUGHPUT,
        events.RESUMED,
        events.RUN_STOP,
    }
)
"""What a checkpoint may leave behind itself in a log."""
THROUGHPUT_SLACK_MS: Final = 1000
"""What checkpoints and the last incomplete batch may take."""


@rule("training.resumed", TrainingLog)
def resumed(log: TrainingLog) -> Iterator[Fault]:
    """A resumed run names the epoch, step and log offset of its checkpoint; only marks of that epoch and later become void.

    Source: house rule: a resumed run continues its one log, and the clock is never paused.
    Advice: hand in the log as the run wrote it.
    """
    starts = {record.offset for record in (*log.records, *log.void)}
    for record in (record for record in (*log.void, *log.records) if record.key == events.RESUMED):
        metadata = record.event.metadata
        offset = metadata.get("log_offset")
        if not all(is_count(metadata.get(name)) for name in (events.EPOCH_NUM, "step", "log_offset")):
            yield log.fault(f"epoch_num {metadata.get(events.EPOCH_NUM)!r}, step {metadata.get('step')!r}, log_offset {offset!r}", "whole numbers", record.line)
        elif offset not in starts:
            yield log.fault(f"log_offset {offset}", f"the start of a record, at most {record.offset}", record.line)
        elif not log.all(events.RUN_START) or log.all(events.RUN_START)[0].offset >= offset:
            yield log.fault(f"log_offset {offset}", "behind run_start", record.line)
    yield from voided(log)


def voided(log: TrainingLog) -> Iterator[Fault]:
    """Judge what became void: marks of the run, of the epoch of the checkpoint or later."""
    resumes = sorted(record for record in (*log.void, *log.records) if record.key == events.RESUMED and is_count(record.event.metadata.get("log_offset")))
    for record in log.void:
        maker = next((each for each in resumes if each.offset > record.offset and each.event.metadata["log_offset"] <= record.offset), None)
        if record.key not in VOID_EVENTS or maker is None:
            yield log.fault(f"{record.key} is made void", "marks of the run alone", record.line)
            continue
        number, first = record.event.metadata.get(events.EPOCH_NUM), maker.event.metadata.get(events.EPOCH_NUM)
        if is_count(number) and is_count(first) and number < first:
            yield log.fault(f"{record.key} of epoch {number} is made void by a checkpoint of epoch {first}", f"epoch {first} or later", record.line)


@rule("training.repeated", TrainingLog, severity=Severity.WARNING)
def repeated(log: TrainingLog) -> Iterator[Fault]:
    """An evaluation that became void and came again gives what it gave before.

    Source: house rule: a run resumes bit for bit.
    Advice: the machine or the software changed between the two; say so beside the result.
    """
    again = {epoch_of(record): record for record in log.all(events.EVAL_ACCURACY)}
    for record in (record for record in log.void if record.key == events.EVAL_ACCURACY):
        other = again.get(epoch_of(record))
        if other is not None and other.value != record.value:
            yield log.fault(f"epoch {epoch_of(record)} gave {record.value}, then {other.value}", "the same value", other.line)


@rule("training.stats", TrainingLog)
def stats(log: TrainingLog) -> Iterator[Fault]:
    """Loss and throughput are finite numbers, throughput is not below zero, told once for an epoch, right behind it.

    Source: house rule: tracked_stats; a run whose loss is no number is aborted.
    Advice: a loss that came to NaN needs another learning rate or loss scaling.
    """
    last: Record | None = None
    for record in log.records:
        value = record.value if isinstance(record.value, dict) else {}
        if record.key == events.THROUGHPUT:
            if log.succeeded and not (finite(value.get("loss")) and finite(value.get("throughput")) and value["throughput"] >= 0):
                yield log.fault(f"{record.value!r}", "finite loss and throughput, throughput from 0 on", record.line)
            if last is None or last.key != events.EPOCH_STOP or epoch_of(record) is None or epoch_of(last) != epoch_of(record):
                yield log.fault(f"tracked_stats of epoch {epoch_of(record)}", "right behind epoch_stop of that epoch", record.line)
        last = record


def epoch_of(record: Record) -> int | None:
    """Give the epoch that an event is of; None where it names none."""
    number = record.event.metadata.get(events.EPOCH_NUM)
    return number if is_count(number) else None


@rule("training.throughput", TrainingLog, severity=Severity.WARNING)
def throughput(log: TrainingLog) -> Iterator[Fault]:
    """The throughput that is told for an epoch fits the training set and the epoch's times.

    Source: house rule: a claim that its own log contradicts; within 15 %, and not for an epoch that was resumed.
    Advice: find out what the epoch's time was spent on.
    """
    samples, started = log.value(events.TRAIN_SAMPLES), {epoch_of(record): record for record in log.all(events.EPOCH_START)}
    for record in log.all(events.THROUGHPUT) if is_count(samples) and not log.all(events.RESUMED) else ():
        start, told = started.get(epoch_of(record)), record.value.get("throughput") if isinstance(record.value, dict) else None
        if start is None or not finite(told) or told <= 0:
            continue
        taken_ms, claimed_ms = record.event.time_ms - start.event.time_ms, 1000 * samples / told
        if abs(taken_ms - claimed_ms) > 0.15 * claimed_ms + THROUGHPUT_SLACK_MS:
            yield log.fault(f"{told:g} samples/s", f"about {1000 * samples / max(taken_ms, 1):.4g}: {samples} in {taken_ms} ms", record.line)
