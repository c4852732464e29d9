"""Check the evaluations of a training run: schedule, accuracy, target, number of epochs, reference
accuracy.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compliance.kinds.podium.documents.training import TrainingLog, is_logged_count
from compliance.kinds.podium.rules.training.hyperparameters import is_equal_setting
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity, Verdict
from suite import events
from suite.rounds import TrainingRow
from suite.rounds.quality import (
    describe_possible_values,
    format_target_sign,
    is_possible_value,
)
from suite.terms import Division, Precision

EVALUATION_EVENTS: Final = (events.EVAL_START, events.EVAL_ACCURACY, events.EVAL_STOP)
EXACT_EVALUATION_PRECISIONS: Final = (Precision.FP32, Precision.TF32)
"""Formats in which an evaluation equals the reference's except for the order of additions."""
COARSE_EVALUATION_FACTOR: Final = 3
"""Factor by which an evaluation in another format may be farther from the reference."""
MAX_COUNTED_SAMPLES: Final = 10_000_000
"""Maximum number of samples at which a logged share distinguishes single samples."""
SAMPLE_ROUNDING_SHARE: Final = 1e-7
"""Share: the rounding error of single precision."""
BROKEN_OFF: Final = (
    "the run was broken off by an error of the machine or program, not by its quality"
)
BROKEN_OFF_ADVICE: Final = (
    "remove the cause that podium train named when it ended, and repeat the run."
)
MAX_REFERENCE_FALL: Final = 0.05
"""Share by which the reference accuracy may be below the last evaluation: bf16 compared with fp32,
training's decoding with serving's.
"""


@rule("training.schedule", TrainingLog, About.RULES)
def schedule(log: TrainingLog) -> Iterator[Fault]:
    """The model is evaluated every k epochs, starting at one of the row's offsets, or after the
    epochs listed in the row.

    Source: training_rules.adoc v0.7, Quality measurement: evaluation frequency; the row's
    evaluate_every_epochs or evaluation_epochs.
    Advice: leave the evaluation schedule to the workload's blocks.
    """
    row = log.training
    if row is None:
        return
    last: object = None
    for evaluation in log.iterate_evaluations():
        due = list(row.list_due_epochs(last)) if last is None or is_logged_count(last) else []
        if evaluation.epoch not in due and evaluation.epoch != row.max_epochs:
            yield log.build_fault(
                f"an evaluation after epoch {evaluation.epoch}",
                f"after epoch {' or '.join(map(str, due)) or '?'}",
                evaluation.line,
            )
        last = evaluation.epoch


@rule("training.evaluated", TrainingLog, About.QUALITY)
def evaluated(log: TrainingLog) -> Iterator[Fault]:
    """Each evaluation logs one eval_accuracy, for the most recent epoch, and an evaluation follows
    each block.

    Source: mlcommons/logging 0.7.0/common.yaml, eval_accuracy; training_rules.adoc v0.7, Quality
    measurement.
    Advice: put the log of the whole run here; a Training of your own evaluates after each block and
    logs one eval_accuracy.
    """
    epoch: object = None
    inside: list[MllogRecord] = []
    pending: MllogRecord | None = None
    for record in log.records:
        if record.key == events.EPOCH_STOP:
            epoch = record.event.metadata.get(events.EPOCH_NUM)
        elif record.key == events.BLOCK_START and pending is not None:
            yield log.build_fault(
                "a block without an evaluation", "an evaluation after each block", pending.line
            )
        elif record.key in EVALUATION_EVENTS:
            inside.append(record)
        if record.key == events.BLOCK_STOP:
            pending = record
        elif record.key == events.EVAL_START:
            pending = None
        if record.key == events.EVAL_STOP:
            yield from check_evaluation_events(log, inside, epoch)
            inside = []
    if inside and any(record.key == events.EVAL_ACCURACY for record in inside) and log.succeeded:
        yield log.build_fault(
            "an eval_accuracy outside an evaluation",
            "between eval_start and eval_stop",
            inside[-1].line,
        )


def check_evaluation_events(
    log: TrainingLog, inside: list[MllogRecord], epoch: object
) -> Iterator[Fault]:
    """Check the events from eval_start to eval_stop."""
    keys = tuple(record.key for record in inside)
    if keys != EVALUATION_EVENTS:
        yield log.build_fault(
            f"an evaluation of {', '.join(keys)}", ", ".join(EVALUATION_EVENTS), inside[-1].line
        )
    for record in inside:
        number = record.event.metadata.get(events.EPOCH_NUM)
        if number != epoch:
            yield log.build_fault(
                f"{record.key} of epoch {number} after epoch {epoch}",
                f"epoch_num {epoch}",
                record.line,
            )


@rule("training.accuracy", TrainingLog, About.QUALITY)
def accuracy(log: TrainingLog) -> Iterator[Fault]:
    """An accuracy is a finite number from 0 to 1 for each metric of the row, or of at least 0 if
    the metric is lower-is-better. It is below 1 in the benchmarks whose own checker requires that
    (evaluations_below). null is allowed only in a run aborted at NaN.

    Source: the row's metrics, lower_is_better and evaluations_below; mlcommons/logging
    0.7.0/closed_*.yaml: eval_accuracy < 1 of its own benchmarks.
    Advice: log the value of the evaluation, an accuracy on a scale from 0 to 1, or a
    loss, which is never negative.
    """
    if log.row is None:
        return
    for record, evaluation in zip(
        log.list_records(events.EVAL_ACCURACY), log.iterate_evaluations(), strict=True
    ):
        for metric, score in evaluation.scores.items():
            scale = metric, log.row.lower_is_better, log.row.evaluations_below
            unfinished = score is None and not log.succeeded and has_null_accuracy(record.value)
            if not unfinished and (score is None or not is_possible_value(score, *scale)):
                yield log.build_fault(
                    f"{metric} is {record.value!r}",
                    describe_possible_values(*scale),
                    record.line,
                )
        if isinstance(record.value, dict) and (
            extra := record.value.keys() - set(log.row.metrics.values())
        ):
            yield log.build_fault(
                f"metrics {', '.join(sorted(extra))}",
                f"{', '.join(log.row.metrics.values())}",
                record.line,
            )


def has_null_accuracy(value: object) -> bool:
    """Return whether a logged accuracy is null, because it was not a number."""
    return value is None or (isinstance(value, dict) and None in value.values())


@rule("training.target", TrainingLog, About.QUALITY)
def target(log: TrainingLog) -> Iterator[Fault]:
    """A successful run reaches every target of the round in its last evaluation: at least the
    target or, in a metric that is lower-is-better, at most.

    Source: training_rules.adoc v0.7, Benchmarks and Benchmark results: the quality target of the
    round, at the last evaluation.
    Advice: train until the target is reached; only the harness sets the status.
    """
    evaluations = list(log.iterate_evaluations())
    if not log.succeeded or log.training is None or log.reached:
        return
    lower = log.row.lower_is_better if log.row else ()
    goal = ", ".join(
        f"{'0 <= ' * (metric in lower)}{metric} {format_target_sign(metric, lower)} {value:g}"
        for metric, value in log.training.target.items()
    )
    if not evaluations:
        yield log.build_fault("status success without an evaluation", goal, events.RUN_STOP)
        return
    scores = ", ".join(f"{metric} {value}" for metric, value in evaluations[-1].scores.items())
    yield log.build_fault(
        f"status success, but the last evaluation has {scores}", goal, evaluations[-1].line
    )


@rule("training.converged", TrainingLog, About.QUALITY, weight=Verdict.NOT_CONVERGED)
def converged(log: TrainingLog) -> Iterator[Fault]:
    """A run reaches its target. Any status other than success means that it did not converge.

    Source: training_rules.adoc v0.7, Benchmark results: a run that does not reach the target counts
    as the slowest, one per set.
    Advice: repeat the run with another seed, or train longer.
    """
    if log.list_records(events.RUN_STOP) and not log.succeeded:
        stop = log.find_line(events.RUN_STOP)
        if is_broken_off(log):
            yield log.build_fault(
                f"status {log.status} before the first evaluation: {BROKEN_OFF}",
                "status success",
                stop,
                advice=BROKEN_OFF_ADVICE,
            )
            return
        last = list(log.iterate_evaluations())[-1:]
        if last:
            scores = ", ".join(f"{metric} {value}" for metric, value in last[0].scores.items())
        else:
            scores = "no evaluation"
        yield log.build_fault(
            f"status {log.status}, last evaluation: {scores}", "status success", stop
        )


def is_broken_off(log: TrainingLog) -> bool:
    """Return whether a run was aborted before its first evaluation, so that its quality was never
    measured.
    """
    return log.status == events.ABORTED and not log.list_records(events.EVAL_ACCURACY)


@rule("training.status", TrainingLog, About.QUALITY)
def status(log: TrainingLog) -> Iterator[Fault]:
    """run_stop has the status success or aborted.

    Source: mlcommons/logging, mllog/constants.py: STATUS, SUCCESS, ABORTED.
    Advice: put the log of the whole run here; a run that was killed has no status: resume it, or
    train again.
    """
    record = log.find_record(events.RUN_STOP)
    if record and log.status not in (events.SUCCESS, events.ABORTED):
        yield log.build_fault(f"status {log.status!r}", "success or aborted", record.line)


@rule("training.stopped", TrainingLog, About.SCORE, severity=Severity.WARNING)
def stopped(log: TrainingLog) -> Iterator[Fault]:
    """A run stops at the first evaluation that reaches the target.

    Source: house rule: the loop stops there, so that no one can choose a later evaluation;
    training_rules.adoc v0.7, Timing.
    Advice: let the harness stop the run.
    """
    for evaluation in list(log.iterate_evaluations())[:-1]:
        if log.has_reached_target(evaluation):
            yield log.build_fault(
                f"a run that continued after it reached the target in epoch {evaluation.epoch}",
                "run_stop after that evaluation",
                evaluation.line,
            )


@rule("training.epoch_limit", TrainingLog, About.RULES)
def epoch_limit(log: TrainingLog) -> Iterator[Fault]:
    """A run has no more epochs than the row allows.

    Source: the row's max_epochs.
    Advice: choose settings that reach the target earlier.
    """
    count = len(log.list_records(events.EPOCH_START))
    if log.training and count > log.training.max_epochs:
        yield log.build_fault(
            f"{count} epochs",
            f"at most {log.training.max_epochs}",
            log.list_records(events.EPOCH_START)[-1].line,
        )


@rule("training.fewest_epochs", TrainingLog, About.QUALITY)
def fewest_epochs(log: TrainingLog) -> Iterator[Fault]:
    """A run does not reach its target in fewer epochs than possible. Deleted epochs, or epochs
    before run_start, would leave fewer. In the open division, with settings other than the row's,
    this is a warning.

    Source: the row's fewest_epochs; like reference convergence points in MLPerf Training.
    Advice: check that no weights from an earlier training were loaded; in the open division,
    explain in the submission why it converges so early.
    """
    count, row = len(log.list_records(events.EPOCH_START)), log.training
    if row and log.succeeded and count < row.fewest_epochs:
        severity = None
        if row.division is Division.OPEN and not has_row_settings(log, row):
            severity = Severity.WARNING
        yield replace(
            log.build_fault(
                f"a target reached after {count} epochs",
                f"at least {row.fewest_epochs}",
                events.RUN_STOP,
            ),
            severity=severity,
        )


def has_row_settings(log: TrainingLog, row: TrainingRow) -> bool:
    """Return whether a run had the row's own settings; one that its log lacks is assumed to be the
    row's.
    """
    settings = log.settings
    return all(is_equal_setting(settings.get(key), value) for key, value in row.settings.items())


@rule("training.reference", TrainingLog, About.QUALITY)
def reference(log: TrainingLog) -> Iterator[Fault]:
    """A successful run logs its checkpoint and, for the same checkpoint, a reference accuracy for
    each metric.

    Source: house rule: the checkpoint is scored once after run_stop, in fp32, with inference's own
    settings.
    Advice: let the run finish; both events are written right after run_stop.
    """
    if not log.succeeded:
        return
    for key in (events.CHECKPOINT, events.REFERENCE_ACCURACY):
        if len(log.list_records(key)) != 1:
            yield log.build_fault(
                f"{key}: {len(log.list_records(key))} records", "exactly 1 after a success", key
            )
    record = log.find_record(events.REFERENCE_ACCURACY)
    if record is None or log.row is None:
        return
    bound = record.event.metadata.get(events.CHECKPOINT)
    if log.checkpoint is None or bound != log.checkpoint or not is_sha256(log.checkpoint):
        yield log.build_fault(
            f"reference_accuracy of {bound!r}, checkpoint {log.checkpoint!r}",
            "one SHA-256 of 64 lower-case hexadecimal digits",
            record.line,
        )
    if log.reference.keys() != set(log.row.scored_metrics) or not all(
        0 <= score <= 1 for score in log.reference.values()
    ):
        yield log.build_fault(
            f"{record.value!r}",
            f"a number from 0 to 1 for {', '.join(log.row.scored_metrics)}",
            record.line,
        )


def is_sha256(text: object) -> bool:
    """Return whether a text is a SHA-256."""
    return (
        isinstance(text, str)
        and len(text) == 64
        and all(letter in "0123456789abcdef" for letter in text)
    )


@rule("training.reference_level", TrainingLog, About.QUALITY)
def reference_level(log: TrainingLog) -> Iterator[Fault]:
    """The reference accuracy is at most 5 % below the last evaluation and, if the row gives a
    tolerance, within it in both directions. So it can neither lower the serving threshold nor fake
    the final score.

    Source: house rule: both scores come from the same weights; the row's reference_within, or three
    times that if training does not use fp32.
    Advice: find out why the exported weights score differently from the trained ones: other
    precision, missing averages of batch normalisation, or another data set.
    """
    last = list(log.iterate_evaluations())[-1:]
    within = log.row.reference_within if log.row else {}
    if not (last and log.succeeded):
        return
    for metric, score in last[0].scores.items():
        reference_score, tolerance = log.reference.get(metric), within.get(metric)
        if reference_score is None or score is None:
            continue
        least, most = score * (1 - MAX_REFERENCE_FALL), math.inf
        if tolerance is not None:
            slack = tolerance
            if log.find_value(events.PRECISION) not in EXACT_EVALUATION_PRECISIONS:
                slack *= COARSE_EVALUATION_FACTOR
            least, most = score - slack, score + slack
        if reference_score < least or reference_score > most:
            required = f"at least {least:.6g}"
            if most < math.inf:
                required += f", at most {most:.6g}"
            yield log.build_fault(
                f"{metric} {reference_score:g}",
                f"{required}, since the last evaluation has {score}",
                events.REFERENCE_ACCURACY,
            )


@rule("training.grain", TrainingLog, About.QUALITY)
def grain(log: TrainingLog) -> Iterator[Fault]:
    """A score that is a fraction of samples corresponds to a whole number of them: accuracy times
    eval_samples is an integer.

    Source: house rule: the metrics of the row's reference_within count correctly answered samples.
    Advice: score whole samples: check that every rank evaluates the full share and that the mean is
    over eval_samples.
    """
    samples, counted = (
        log.find_value(events.EVAL_SAMPLES),
        log.row.reference_within if log.row else {},
    )
    if not (is_logged_count(samples) and 0 < samples <= MAX_COUNTED_SAMPLES):
        return
    for evaluation in log.iterate_evaluations():
        for metric, score in evaluation.scores.items():
            if (
                metric in counted
                and score is not None
                and abs(score * samples - round(score * samples)) > SAMPLE_ROUNDING_SHARE * samples
            ):
                yield log.build_fault(
                    f"{metric} {score}: {score * samples:.4f} of {samples} samples",
                    "a whole number of samples",
                    evaluation.line,
                )
