"""The runs of podium's own run sets as a report draws them."""

from collections.abc import Mapping

from compliance.kinds.podium.documents.training import TrainingLog, read_training_log
from compliance.logs.finite_numbers import is_finite_number
from compliance.results.indexed_result import IndexedResult
from compliance.results.training_runs import (
    EPOCHS_NAME,
    LOSS_KEY,
    PROGRESS_NAMES,
    SEQUENCE_LENGTH_KEY,
    THROUGHPUT_KEY,
    DrawnTrainingRun,
    DrawnTrainingSet,
    list_token_evaluations,
)
from suite import registry
from suite.events import (
    EPOCH_NUM,
    RUN_START,
    SAMPLES_COUNT,
    SEED,
    SUCCESS,
    THROUGHPUT,
)
from suite.measurement.data_waiting import WAITED_FOR_DATA
from suite.units import MS_PER_MINUTE


def read_podium_training_runs(result: IndexedResult, round_name: str) -> DrawnTrainingSet:
    """Read the runs of a run set, or of its single log."""
    logs = [read_training_log(log, registry.load_round(), None) for log in result.training_logs]
    counted = all(log.row and log.row.counts_samples for log in logs)
    return DrawnTrainingSet(
        runs=tuple(build_podium_drawn_run(log) for log in logs),
        progress_name=PROGRESS_NAMES[SAMPLES_COUNT] if counted else EPOCHS_NAME,
    )


def build_podium_drawn_run(log: TrainingLog) -> DrawnTrainingRun:
    """Take what is drawn from one of podium's own logs."""
    last = next(reversed(list(log.iterate_evaluations())), None)
    counted = log.row is not None and log.row.counts_samples
    progress, final = None, {}
    if last:
        final = {metric: value for metric, value in last.scores.items() if value is not None}
        progress = last.samples if counted else last.epoch
    return DrawnTrainingRun(
        log=log.path.name,
        minutes=log.minutes,
        evaluations=tuple(list_timed_evaluations(log)),
        progress=float(progress) if is_finite_number(progress) else None,
        final=final,
        reached=log.status == SUCCESS,
        seed=log.find_value(SEED),
        epoch_values={
            key: list_epoch_values(log, key) for key in (LOSS_KEY, THROUGHPUT_KEY, WAITED_FOR_DATA)
        },
        token_evaluations=list_token_evaluations(
            log.find_value(SEQUENCE_LENGTH_KEY),
            ((each.samples, each.scores) for each in log.iterate_evaluations() if counted),
        ),
    )


def list_timed_evaluations(log: TrainingLog) -> list[tuple[float, Mapping[str, float]]]:
    """Return minutes and scores of a run's evaluations."""
    start = log.find_record(RUN_START)
    if start is None:
        return []
    records = zip(log.list_records("eval_accuracy"), log.iterate_evaluations(), strict=True)
    timed = (
        (
            (record.event.time_ms - start.event.time_ms) / MS_PER_MINUTE,
            {metric: value for metric, value in each.scores.items() if value is not None},
        )
        for record, each in records
    )
    return [(minutes, scores) for minutes, scores in timed if scores]


def list_epoch_values(log: TrainingLog, key: str) -> tuple[tuple[float, float], ...]:
    """Return epochs and values of a metric logged once per epoch."""
    epoch_stats = (
        (record.event.metadata.get(EPOCH_NUM), record.value)
        for record in log.list_records(THROUGHPUT)
    )
    return tuple(
        (float(epoch), float(value[key]))
        for epoch, value in epoch_stats
        if is_finite_number(epoch) and isinstance(value, dict) and is_finite_number(value.get(key))
    )
