"""Check the progress of a run: resumed runs, repeated evaluations, loss and throughput."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from compliance.kinds.podium.documents.training import (
    TrainingLog,
    is_logged_count,
    list_evaluation_times,
)
from compliance.logs.finite_numbers import MAX_LOGGED_NUMBER, is_finite_number
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.measurement.data_waiting import WAITED_FOR_DATA
from suite.units import MS_PER_S, US_PER_MS

VOID_EVENTS: Final = frozenset(
    {
        events.BLOCK_START,
        events.BLOCK_STOP,
        events.EPOCH_START,
        events.EPOCH_STOP,
        events.EVAL_START,
        events.EVAL_STOP,
        events.EVAL_ACCURACY,
        events.EXAMPLE,
        events.THROUGHPUT,
        events.RESUMED,
        events.RUN_STOP,
    }
)
"""What a checkpoint may leave behind itself in a log."""
BATCH_SIZE_KEY: Final = "global_batch_size"
"""The hyperparameter that gives the number of samples per step."""
OUTSTANDING_RATE_FACTOR: Final = 3
"""On machines with other work, the rates of epochs differ by less: 1.7 and 1.8 times between the
slowest and the fastest of two honest runs. A first epoch that includes compilation is slower than
the others, not faster.
"""
LOSS_TOLERANCE: Final = 1e-3
"""Maximum rounding error of a loss that is almost 0."""
MIN_COMPARED_LOSSES: Final = 3
"""Minimum number of epochs at which one loss in all of them is not a coincidence: in single
precision, one in 10^14.
"""
HINTED_WAITING_SHARE: Final = 0.2
"""House rule: a run that waits for data for a fifth of its time has a loader to improve."""
THROUGHPUT_TOLERANCE_MS: Final = 1000
"""Maximum time for checkpoints and the last incomplete batch."""


@rule("training.resumed", TrainingLog, About.SCORE)
def resumed(log: TrainingLog) -> Iterator[Fault]:
    """A resumed run logs the epoch, step and log offset of its checkpoint. Only events of that
    epoch and later become void.

    Source: house rule: a resumed run continues its one log, and the clock is never paused.
    Advice: resume with podium train --resume from the checkpoint of this very run, with its log
    beside it.
    """
    starts = {record.offset for record in (*log.records, *log.void)}
    for record in (record for record in (*log.void, *log.records) if record.key == events.RESUMED):
        metadata = record.event.metadata
        offset = metadata.get("log_offset")
        if not all(
            is_logged_count(metadata.get(name)) for name in (events.EPOCH_NUM, "step", "log_offset")
        ):
            yield log.build_fault(
                f"epoch_num {metadata.get(events.EPOCH_NUM)!r}, step {metadata.get('step')!r},"
                f" log_offset {offset!r}",
                "whole numbers",
                record.line,
            )
        elif offset not in starts:
            yield log.build_fault(
                f"log_offset {offset}",
                f"the start of a record, at most {record.offset}",
                record.line,
            )
        elif (
            not log.list_records(events.RUN_START)
            or log.list_records(events.RUN_START)[0].offset >= offset
        ):
            yield log.build_fault(f"log_offset {offset}", "an offset after run_start", record.line)
    yield from check_void_events(log)


def check_void_events(log: TrainingLog) -> Iterator[Fault]:
    """Check the void events: events of the run, in the epoch of the checkpoint or later."""
    resumes = sorted(
        record
        for record in (*log.void, *log.records)
        if record.key == events.RESUMED and is_logged_count(record.event.metadata.get("log_offset"))
    )
    for record in log.void:
        maker = next(
            (
                each
                for each in resumes
                if each.offset > record.offset
                and each.event.metadata["log_offset"] <= record.offset
            ),
            None,
        )
        if record.key not in VOID_EVENTS or maker is None:
            yield log.build_fault(
                f"{record.key} becomes void", "only events of the run", record.line
            )
            continue
        number, first = (
            record.event.metadata.get(events.EPOCH_NUM),
            maker.event.metadata.get(events.EPOCH_NUM),
        )
        if is_logged_count(number) and is_logged_count(first) and number < first:
            yield log.build_fault(
                f"a checkpoint of epoch {first} voids {record.key} of epoch {number}",
                f"epoch {first} or later",
                record.line,
            )


@rule("training.repeated", TrainingLog, About.QUALITY, severity=Severity.WARNING)
def repeated(log: TrainingLog) -> Iterator[Fault]:
    """An evaluation repeated after a resume gives the same score as before.

    Source: house rule: a resumed run repeats the interrupted one bit for bit.
    Advice: the machine or the software changed in between; explain it in the submission.
    """
    again = {get_epoch_number(record): record for record in log.list_records(events.EVAL_ACCURACY)}
    for record in (record for record in log.void if record.key == events.EVAL_ACCURACY):
        other = again.get(get_epoch_number(record))
        if other is not None and other.value != record.value:
            yield log.build_fault(
                f"epoch {get_epoch_number(record)} gave {record.value}, then {other.value}",
                "the same value",
                other.line,
            )


@rule("training.stats", TrainingLog, About.SCORE)
def stats(log: TrainingLog) -> Iterator[Fault]:
    """Loss and throughput are finite and not below their least values, and the log records each
    once per epoch, directly after the epoch. No evaluation is better than the data allow.

    Source: house rule: tracked_stats; a run whose loss is not a number is aborted; the row's
    lowest_loss: a cross-entropy is never below 0; best_possible: the entropy of embedded data.
    Advice: a loss of NaN needs another learning rate or loss scaling.
    """
    yield from check_best_possible(log)
    lowest = log.row.lowest_loss if log.row else None
    last: MllogRecord | None = None
    for record in log.records:
        value = record.value if isinstance(record.value, dict) else {}
        if record.key == events.THROUGHPUT:
            if log.succeeded and not (
                is_finite_number(value.get("loss"))
                and is_finite_number(value.get("throughput"))
                and value["throughput"] >= 0
            ):
                yield log.build_fault(
                    f"{record.value!r}",
                    "finite loss and throughput, and a throughput of at least 0",
                    record.line,
                )
            elif (
                lowest is not None
                and is_finite_number(value.get("loss"))
                and value["loss"] < lowest - LOSS_TOLERANCE
            ):
                yield log.build_fault(f"loss {value['loss']}", f"at least {lowest:g}", record.line)
            if (
                last is None
                or last.key != events.EPOCH_STOP
                or get_epoch_number(record) is None
                or get_epoch_number(last) != get_epoch_number(record)
            ):
                yield log.build_fault(
                    f"tracked_stats of epoch {get_epoch_number(record)}",
                    "directly after that epoch's epoch_stop",
                    record.line,
                )
        last = record


def check_best_possible(log: TrainingLog) -> Iterator[Fault]:
    """Yield evaluations that are better than any model's can be on the row's data."""
    if log.row is None or log.training is None:
        return
    for evaluation in log.iterate_evaluations():
        for metric, best in log.training.best_possible.items():
            found = evaluation.scores.get(metric)
            if found is None:
                continue
            lower = metric in log.row.lower_is_better
            if found < best if lower else found > best:
                yield log.build_fault(
                    f"{metric} {found:g} in epoch {evaluation.epoch}",
                    f"at {'least' if lower else 'most'} {best:g}: the data have no less entropy",
                    evaluation.line,
                )


@rule("training.losses", TrainingLog, About.QUALITY)
def losses(log: TrainingLog) -> Iterator[Fault]:
    """In a run that reached its target, the mean loss changes between epochs. Two epochs with the
    same loss, to the last digit, are a warning.

    Source: house rule: tracked_stats; learning changes the loss, and two means over thousands of
    samples never agree to the last digit.
    Advice: check that the optimizer steps and that the learning rate is not 0: a loss that never
    changes learns nothing.
    """
    logged_losses = [
        (record.value["loss"], record)
        for record in log.list_records(events.THROUGHPUT)
        if isinstance(record.value, dict) and is_finite_number(record.value.get("loss"))
    ]
    if not log.succeeded or len(logged_losses) < MIN_COMPARED_LOSSES:
        return
    known_losses: dict[float, MllogRecord] = {}
    for loss, record in logged_losses:
        other = known_losses.setdefault(loss, record)
        if other is not record and len({each for each, _ in logged_losses}) > 1:
            fault = log.build_fault(
                f"loss {loss} in epochs {get_epoch_number(other)} and {get_epoch_number(record)}",
                "a different loss in each epoch",
                record.line,
            )
            yield replace(fault, severity=Severity.WARNING)
    if len(known_losses) == 1:
        yield log.build_fault(
            f"loss {logged_losses[0][0]} in all {len(logged_losses)} epochs",
            "a loss that changes while the model learns",
            logged_losses[-1][1].line,
        )


def get_epoch_number(record: MllogRecord) -> int | None:
    """Return the epoch of an event; None if it names none."""
    number = record.event.metadata.get(events.EPOCH_NUM)
    return number if is_logged_count(number) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStretch:
    """An epoch, or the rest of it after an interrupted run was resumed."""

    epoch: int
    samples: float
    taken_ms: float
    stated_rate: float | None
    """Samples/s, as in its tracked_stats."""
    whole: bool
    line: int

    @property
    def rate(self) -> float:
        """Return samples/s, by the log's clock."""
        return self.samples * MS_PER_S / max(self.taken_ms, 1.0)


def iterate_epoch_stretches(log: TrainingLog) -> Iterator[EpochStretch]:
    """Yield each valid epoch, with the number of its samples that were trained since the run began
    or resumed.
    """
    samples, batch = log.find_value(events.TRAIN_SAMPLES), log.find_value(BATCH_SIZE_KEY)
    begun: MllogRecord | None = None
    done = 0
    if not (is_logged_count(samples) and samples):
        return
    for record in log.records:
        if record.key == events.EPOCH_START:
            begun, done = record, 0
        elif record.key == events.RESUMED and begun is not None:
            step = record.event.metadata.get("step")
            inside = get_epoch_number(record) == get_epoch_number(begun) and is_logged_count(step)
            begun, done = record, count_trained_samples(step, batch) if inside else 0
        elif (
            record.key == events.THROUGHPUT
            and begun is not None
            and (epoch := get_epoch_number(record)) is not None
        ):
            stated = record.value.get("throughput") if isinstance(record.value, dict) else None
            left, taken = max(samples - done, 0), record.event.time_ms - begun.event.time_ms
            rate = stated if is_finite_number(stated) and stated > 0 else None
            yield EpochStretch(
                epoch=epoch,
                samples=left,
                taken_ms=taken,
                stated_rate=rate,
                whole=begun.key == events.EPOCH_START,
                line=record.line,
            )
            begun = None


def count_trained_samples(step: object, batch: object) -> int:
    """Return the samples of some steps, or all samples if the number per step is unknown."""
    return (
        step * batch if is_logged_count(step) and is_logged_count(batch) else int(MAX_LOGGED_NUMBER)
    )


@rule("training.throughput", TrainingLog, About.SCORE, severity=Severity.WARNING)
def throughput(log: TrainingLog) -> Iterator[Fault]:
    """An epoch's logged throughput is consistent with the training data and the epoch's times. An
    epoch that is shorter than its throughput implies is an error, a longer one a warning.

    Source: house rule: a log must not contradict itself; within 15 %. The log's stamps enclose the
    time that the throughput is computed from: a process that is held up in between has a longer
    epoch, never a shorter one.
    Advice: find out what held the machine up between the lines of this epoch.
    """
    for stretch in iterate_epoch_stretches(log):
        if stretch.stated_rate:
            claimed_ms = 1000 * stretch.samples / stretch.stated_rate
        else:
            claimed_ms = stretch.taken_ms
        apart_ms, slack_ms = (
            stretch.taken_ms - claimed_ms,
            0.15 * claimed_ms + THROUGHPUT_TOLERANCE_MS,
        )
        if apart_ms < -slack_ms or (stretch.whole and apart_ms > slack_ms):
            required = (
                f"about {1000 * stretch.samples / max(stretch.taken_ms, 1):.4g}:"
                f" {stretch.samples:.0f} in {stretch.taken_ms:.0f} ms"
            )
            severity = Severity.ERROR if apart_ms < 0 else None
            yield replace(
                log.build_fault(f"{stretch.stated_rate:g} samples/s", required, stretch.line),
                severity=severity,
            )


@rule("training.waiting", TrainingLog, About.SCORE, severity=Severity.INFO)
def waiting(log: TrainingLog) -> Iterator[Fault]:
    """The steps of an epoch did not wait for data: a hint that the loader was the limit, where they
    waited for a fifth of the time or more in the epoch that waited most.

    Source: house rule: tracked_stats; logs of earlier versions do not state the share.
    Advice: raise data.workers, or leave it to the machine with data.workers=auto.
    """
    shares = [
        (record.value[WAITED_FOR_DATA], record)
        for record in log.list_records(events.THROUGHPUT)
        if isinstance(record.value, dict) and is_finite_number(record.value.get(WAITED_FOR_DATA))
    ]
    share, record = max(shares, key=lambda each: each[0], default=(0.0, None))
    if record is not None and share >= HINTED_WAITING_SHARE:
        yield log.build_fault(
            f"waited for data {100 * share:.0f} % of epoch {get_epoch_number(record)}",
            f"less than {100 * HINTED_WAITING_SHARE:.0f} %",
            record.line,
        )


@rule("training.pace", TrainingLog, About.SCORE)
def pace(log: TrainingLog) -> Iterator[Fault]:
    """No optimizer step is faster than any device can be. No epoch is three times as fast as all
    others of its run, and no evaluation either if an answer is one forward pass.

    Source: house rule: the row's fastest_step_us; an epoch that is much faster than the others,
    including voided ones, is a warning, and so is an evaluation. Answers that are generated step by
    step become shorter as a model learns.
    Advice: train again on a machine whose clock nobody sets; if a step really is that fast, ask for
    a lower fastest_step_us in the workload's row.
    """
    found, batch = list(iterate_epoch_stretches(log)), log.find_value(BATCH_SIZE_KEY)
    fastest = log.row.fastest_step_us if log.row else None
    if fastest is not None and is_logged_count(batch) and batch:
        for stretch in found:
            steps = stretch.samples // batch
            if stretch.taken_ms * US_PER_MS < steps * fastest - US_PER_MS:
                yield log.build_fault(
                    f"epoch {stretch.epoch}: {steps:.0f} steps in {stretch.taken_ms:.0f} ms",
                    f"at least {fastest:g} us per step",
                    stretch.line,
                )
    yield from check_outstanding_epoch(log, found)
    yield from check_outstanding_evaluation(log)


def check_outstanding_epoch(log: TrainingLog, found: Sequence[EpochStretch]) -> Iterator[Fault]:
    """Yield the epoch that is three times as fast as all others, if these took more than a
    moment.
    """
    ordered = sorted(
        (stretch for stretch in found if stretch.samples), key=lambda stretch: stretch.rate
    )
    others = [*(stretch.rate for stretch in ordered[:-1]), *iterate_void_rates(log)]
    if not ordered or not others:
        return
    best, next_best = ordered[-1], max(others)
    if (
        best.rate > OUTSTANDING_RATE_FACTOR * next_best
        and best.samples / next_best > THROUGHPUT_TOLERANCE_MS / MS_PER_S
    ):
        required = (
            f"less than {OUTSTANDING_RATE_FACTOR} times the {next_best:.4g} of the next fastest"
        )
        yield replace(
            log.build_fault(
                f"epoch {best.epoch} trains {best.rate:.4g} samples/s", required, best.line
            ),
            severity=Severity.WARNING,
        )


def check_outstanding_evaluation(log: TrainingLog) -> Iterator[Fault]:
    """Yield that one evaluation is three times as fast as all others, if these took more than a
    moment.
    """
    fastest_ms, *others_ms = sorted(list_evaluation_times(log)) or [0.0]
    if not others_ms or log.row is None or not log.row.reference_within:
        return
    if (
        others_ms[0] > OUTSTANDING_RATE_FACTOR * fastest_ms
        and others_ms[0] > THROUGHPUT_TOLERANCE_MS
    ):
        yield log.build_fault(
            f"an evaluation of {fastest_ms:.0f} ms",
            f"more than {others_ms[0] / OUTSTANDING_RATE_FACTOR:.0f} ms, a third of the next"
            " fastest",
            events.EVAL_START,
            severity=Severity.WARNING,
        )


def iterate_void_rates(log: TrainingLog) -> Iterator[float]:
    """Yield the samples/s of each complete epoch that a resumed run voided."""
    samples = log.find_value(events.TRAIN_SAMPLES)
    starts: dict[int | None, MllogRecord] = {}
    if not is_logged_count(samples):
        return
    for record in log.void:
        if record.key == events.EPOCH_START:
            starts[get_epoch_number(record)] = record
        elif record.key == events.EPOCH_STOP and (
            start := starts.pop(get_epoch_number(record), None)
        ):
            yield samples * MS_PER_S / max(record.event.time_ms - start.event.time_ms, 1.0)
