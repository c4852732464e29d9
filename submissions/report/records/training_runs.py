"""The runs of a training set as a report draws them, from the judge's documents of any round."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from compliance.documents.podium.training import TrainingLog, is_finite_number, read_training_log
from compliance.documents.training.log import RESULT_LOGGING_DELAY_NS, PublishedLog
from submissions.report.document import Axis
from submissions.report.records.telemetry import MINUTES_AXIS_UNIT
from submissions.result_index import IndexedResult
from submissions.score.published import find_final_evaluation, read_published_result_logs
from submissions.score.score import Score
from suite import registry
from suite.events import (
    EPOCH_NUM,
    RUN_START,
    RUN_STOP,
    SAMPLES_COUNT,
    SEED,
    SUCCESS,
    THROUGHPUT,
)
from suite.measurement.data_waiting import WAITED_FOR_DATA
from suite.rounds import RoundKind
from suite.units import MS_PER_MINUTE, NS_PER_S, S_PER_MINUTE

THROUGHPUT_KEY: Final = "throughput"
LOSS_KEY: Final = "loss"
PROGRESS_NAMES: Final = {SAMPLES_COUNT: "samples", "step_num": "steps"}
"""Metadata field with a run's progress -> its name; other fields count epochs."""
EPOCHS_NAME: Final = "epochs"
SEQUENCE_LENGTH_KEY: Final = "max_sequence_length"
"""Tokens of a training sequence. Source: mlcommons/logging, closed_llama31_8b.yaml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTrainingRun:
    """One run of a training set."""

    log: str
    """Name of its file."""
    minutes: float | None
    """From run_start to run_stop; None if the log lacks one of them."""
    evaluations: tuple[tuple[float, Mapping[str, float]], ...]
    """Position on the set's axis and scores of each evaluation in which one was logged."""
    progress: float | None
    """Progress at the evaluation that ended it; None if not logged."""
    final: Mapping[str, float]
    """Scores of that evaluation."""
    reached: bool
    """Whether it reached its target."""
    seed: object
    """None if not logged."""
    epoch_values: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    """Metric logged once per epoch -> epochs and values."""
    token_evaluations: tuple[tuple[float, Mapping[str, float]], ...] = ()
    """Tokens trained and scores of each evaluation; empty unless the log counts sequences and
    states their length.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTrainingSet:
    """All runs of a training set, and what their evaluations are drawn over."""

    runs: tuple[DrawnTrainingRun, ...]
    axis: Axis
    progress_name: str = EPOCHS_NAME
    """Unit of the runs' progress."""


def read_drawn_training_set(result: IndexedResult, score: Score) -> DrawnTrainingSet:
    """Read a training set with the reader of its round."""
    if registry.load_round_kind(score.round) is RoundKind.TRAINING:
        _, logs = read_published_result_logs(result, registry.load_published_training(score.round))
        row = logs[0].row
        name = PROGRESS_NAMES.get(row.progress[0] if row and row.progress else "", EPOCHS_NAME)
        later = bool(row and (row.evaluated_later or not row.data_set))
        runs = tuple(build_published_drawn_run(each, later, name) for each in logs)
        # checkpoints that are evaluated after the clock have no time within the run
        axis = Axis(name=name, low=0.0) if later else build_training_time_axis(runs)
        return DrawnTrainingSet(runs=runs, axis=axis, progress_name=name)
    own_logs = [read_training_log(log, registry.load_round(), None) for log in result.training_logs]
    counted = all(log.row and log.row.counts_samples for log in own_logs)
    runs = tuple(build_podium_drawn_run(log) for log in own_logs)
    return DrawnTrainingSet(
        runs=runs,
        axis=build_training_time_axis(runs),
        progress_name=PROGRESS_NAMES[SAMPLES_COUNT] if counted else EPOCHS_NAME,
    )


def build_training_time_axis(runs: tuple[DrawnTrainingRun, ...]) -> Axis:
    """Return the time axis of a training set, to the end of its longest run; its quality and
    machine charts share it.
    """
    return Axis(
        name="time since run_start",
        unit=MINUTES_AXIS_UNIT,
        low=0.0,
        high=max((run.minutes for run in runs if run.minutes is not None), default=None),
    )


def build_published_drawn_run(
    log: PublishedLog, later: bool, progress_name: str
) -> DrawnTrainingRun:
    """Take what is drawn from the log of a published round; `later` means that its checkpoints were
    evaluated after the run.
    """
    counted = progress_name == PROGRESS_NAMES[SAMPLES_COUNT]
    start, stop = log.find_first_record(RUN_START), log.find_first_record(RUN_STOP)
    evaluations = []
    for each in log.evaluations:
        scores = {metric: value for metric, value in each.scores.items() if value is not None}
        if later:
            position = each.epoch
        elif start is None or (
            stop is not None and each.entry.time_ns > stop.time_ns + RESULT_LOGGING_DELAY_NS
        ):
            position = None  # unfinished when the run stopped: it does not count
        else:
            position = (each.entry.time_ns - start.time_ns) / NS_PER_S / S_PER_MINUTE
        if scores and position is not None and position >= 0:
            evaluations.append((position, scores))
    final = find_final_evaluation(log)
    return DrawnTrainingRun(
        log=log.path.name,
        minutes=log.minutes,
        evaluations=tuple(evaluations),
        progress=final.epoch if final else None,
        final={metric: value for metric, value in final.scores.items() if value is not None}
        if final
        else {},
        reached=log.reached,
        seed=log.find_value(SEED),
        token_evaluations=list_token_evaluations(
            log.find_value(SEQUENCE_LENGTH_KEY),
            ((each.epoch, each.scores) for each in log.evaluations if counted),
        ),
    )


def build_podium_drawn_run(log: TrainingLog) -> DrawnTrainingRun:
    """Take what is drawn from one of podium's own logs."""
    last = next(reversed(list(log.iterate_evaluations())), None)
    counted = log.row is not None and log.row.counts_samples
    progress = (last.samples if counted else last.epoch) if last else None
    return DrawnTrainingRun(
        log=log.path.name,
        minutes=log.minutes,
        evaluations=tuple(list_timed_evaluations(log)),
        progress=float(progress) if is_finite_number(progress) else None,
        final={metric: value for metric, value in last.scores.items() if value is not None}
        if last
        else {},
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


def list_token_evaluations(
    length: object, evaluations: Iterable[tuple[object, Mapping[str, float | None]]]
) -> tuple[tuple[float, Mapping[str, float]], ...]:
    """Return tokens trained and scores of evaluations, given the tokens of a sequence and the
    sequences trained before each; empty without a length.
    """
    if not is_finite_number(length) or length <= 0:
        return ()
    return tuple(
        (float(samples) * length, known)
        for samples, scores in evaluations
        if is_finite_number(samples)
        and (known := {metric: value for metric, value in scores.items() if value is not None})
    )


def list_timed_evaluations(log: TrainingLog) -> list[tuple[float, Mapping[str, float]]]:
    """Return minutes and scores of a run's evaluations."""
    start = log.find_first_record(RUN_START)
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
