"""A published training log: evaluation results, target and final status."""

from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.training.log import PublishedLog
from compliance.documents.training.values import PERCENT, finite, number, reaches, scores_of
from compliance.logs.mllog.published import Dialect
from compliance.rules import rule
from compliance.rules.training.log_identity import short
from compliance.verdict import Fault, Severity, Verdict
from suite import events
from suite.rounds.published_training import PublishedBenchmark

SHARE: Final = 1.0
"""Accuracies, average precisions, BLEU and areas under a curve are below this, as a share."""
FEWEST: Final = 3
"""Evaluations from which on equal results are no chance."""
ABOVE: Final = 0.25
"""Of the way from the target to a perfect score: runs that stop at their target end in the first
hundredths of it.
"""


@rule("log.accuracy", PublishedLog)
def accuracy(log: PublishedLog) -> Iterator[Fault]:
    """An evaluation's result is a number, or one per metric, in the metric's range; no checkpoint
    lacks a metric that its judgement needs.

    Source: mlcommons/logging, training_0.7.0/closed_<benchmark>.yaml: BBOX and SEGM, below 1.0;
    accepted logs of v0.6 have text, lists and 0-100 too.
    Advice: log the metric itself, in the round's format and unit.
    """
    if log.row is None:
        return
    if log.free:
        yield from unmeasured(log, log.row)
        yield from half_measured(log, log.row)
        return
    evaluations = log.evaluations
    percent = log.row.percent and any(
        raw > SHARE for each in evaluations if (raw := number(each.entry.value)) is not None
    )
    limit, metrics = PERCENT if percent else SHARE, tuple(log.row.metrics.values())
    for each in evaluations:
        record, scores = each.entry, [*each.scores.values()]
        told = [score for score in scores if score is not None]
        if len(told) < len(scores) or (
            log.round.events.samples and not formed(record.value, metrics)
        ):
            yield log.fault(
                f"eval_accuracy {short(record.value)}",
                " and ".join(key or "one number" for key in metrics),
                record.line,
            )
        elif told and not (
            min(told) >= 0 and (max(told) < SHARE or (max(told) == SHARE and not log.row.data_set))
        ):
            yield log.fault(
                f"eval_accuracy {short(record.value)}", f"from 0 to below {limit:g}", record.line
            )


def unmeasured(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield results of v1.0 and later that are no numbers in the range of their metric, and metrics
    that a checkpoint lacks.
    """
    single = not row.joined and len(row.metrics) == 1
    for record in log.all(events.EVAL_ACCURACY):
        if single and type(record.value) is float and 0 <= record.value <= SHARE:
            continue  # the usual form
        told = record.metadata.get("metric") if row.joined else None
        named = {
            metric: key for metric, key in row.metrics.items() if not row.joined or key == told
        }
        scores = (
            dict.fromkeys(named, record.value)
            if row.joined
            else scores_of(record.value, row.metrics)
        )
        wrong = [
            metric
            for metric in row.metrics
            if metric in scores and not in_range(scores[metric], metric in row.lower_is_better)
        ]
        if row.joined and not named:
            yield log.fault(
                f"eval_accuracy of metric {short(told)}",
                " or ".join(row.metrics.values()),
                record.line,
            )
        elif wrong or (set(row.metrics.values()) == {""} and not finite(record.value)):
            wanted = " and ".join(key or "one number" for key in row.metrics.values())
            limits = "from 0 on" if row.lower_is_better else "from 0 to 1"
            yield log.fault(
                f"eval_accuracy {short(record.value)}", f"{wanted}, {limits}", record.line
            )


def half_measured(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield checkpoints that lack a metric; one that misses the target in the metrics before it
    needs no other.

    Source: mlcommons/logging, closed_stable_diffusion.yaml: a checkpoint without FID, or without
    CLIP where FID passes, is a KeyError.
    """
    for each in log.evaluations if row.joined else ():
        lacking = next((metric for metric in row.metrics if each.scores.get(metric) is None), None)
        told = {
            metric: goal
            for metric, goal in log.target.items()
            if each.scores.get(metric) is not None
        }
        if lacking is not None and told and each.epoch is not None:
            passed = reaches(each.scores, told, row.lower_is_better, log.above)
            needed = passed or lacking == next(iter(row.metrics))
            found = f"no {row.metrics[lacking]} of the checkpoint at {each.epoch:.12g}"
            yield log.fault(
                found,
                " and ".join(row.metrics.values()),
                each.entry.line,
                None if needed else Severity.WARNING,
            )


def in_range(score: object, lower: bool) -> bool:
    """Tell a result that its metric can have."""
    return finite(score) and (score >= 0 if lower else 0 <= score <= SHARE)


def formed(value: object, metrics: Sequence[str]) -> bool:
    """Tell whether a value has the form of v0.7: a number, or one table of the metrics' own keys,
    where they have such.
    """
    if isinstance(value, dict):
        return any(metrics) and all(finite(value.get(key)) for key in metrics if key)
    return not any(metrics) and finite(value)


@rule("log.plausible", PublishedLog, severity=Severity.WARNING)
def plausible(log: PublishedLog) -> Iterator[Fault]:
    """Evaluation results are plausible for training: they differ from one another and end not far
    above the target.

    Source: house rule; in accepted logs runs stop at the target, and one has the same result in
    most of its evaluations, none in all.
    Advice: check what was evaluated, and with which labels.
    """
    if log.row is None or not log.row.strict:
        return
    found = [tuple(each.scores.values()) for each in log.evaluations]
    if len(found) >= FEWEST and len(set(found)) == 1:
        yield log.fault(
            f"{short(log.evaluations[0].entry.value)} in all {len(found)} evaluations",
            "results that differ",
            log.evaluations[0].entry.line,
        )
    limits = {metric: goal + (1 - goal) * ABOVE for metric, goal in log.target.items()}
    for each in log.evaluations:
        for metric, limit in limits.items():
            score = each.scores.get(metric)
            if score is not None and score > limit:
                yield log.fault(
                    f"{metric} {score:g}",
                    f"at most {limit:.3g}: the target is {log.target[metric]:g}",
                    each.entry.line,
                )
                return


@rule("log.instant", PublishedLog, severity=Severity.INFO)
def instant(log: PublishedLog) -> Iterator[Fault]:
    """An evaluation takes time between its start and its stop.

    Source: training_rules.adoc, Quality measure: the time to evaluate is included; accepted logs of
    SSD mark only the report of a result.
    Advice: log eval_start where the evaluation begins, and eval_stop where it ends.
    """
    if log.older:
        return
    pairs = zip(log.all(events.EVAL_START), log.all(events.EVAL_STOP), strict=False)
    if found := [begun for begun, ended in pairs if ended.time_ns == begun.time_ns]:
        yield log.fault(
            f"{len(found)} evaluation(s) of 0 ms", "evaluations that take time", found[0].line
        )


@rule("log.status", PublishedLog)
def status(log: PublishedLog) -> Iterator[Fault]:
    """The end of the run has a status that the round knows.

    Source: mlcommons/logging, common.yaml: 'status' in the metadata of run_stop;
    mllog/constants.py: success, aborted.
    Advice: log success if the target was reached, otherwise aborted.
    """
    if log.older:
        return
    for record in log.all(events.RUN_STOP):
        told = record.metadata.get(events.STATUS)
        if told not in log.round.rules.run_statuses:
            yield log.fault(
                f"run_stop with status {short(told)}",
                " or ".join(log.round.rules.run_statuses),
                record.line,
            )


@rule("log.target", PublishedLog)
def target(log: PublishedLog) -> Iterator[Fault]:
    """A successful run reaches the target in its last evaluation, and a run that reaches it does
    not report failure.

    Source: training_rules.adoc, Benchmarks, Quality Target, and Quality measure; the benchmark's
    targets.
    Advice: train until an evaluation reaches the target, or log the run as aborted.
    """
    if not log.evaluations or not log.target:
        return
    stop = log.first(events.RUN_STOP)
    before = [each for each in log.evaluations if stop and each.entry.order < stop.order]
    last, goal = (
        (before or log.evaluations)[-1],
        ", ".join(f"{metric} {value:g}" for metric, value in log.target.items()),
    )
    if log.succeeded and not log.reached:
        better = "or better" if log.free else "or more"
        yield log.fault(
            f"status success, but the last evaluation is {short(last.entry.value)}",
            f"{goal} {better}",
            last.entry.line,
        )
    elif log.status in log.round.rules.run_statuses[1:] and log.reached:
        accepted = (
            Severity.WARNING if Dialect.SECONDS in log.dialects else None
        )  # the one such log among the accepted ones
        found = (
            f"status {log.status}, but the last evaluation, {short(last.entry.value)}, reaches"
            f" {goal}"
        )
        yield log.fault(found, "success", log.line(events.RUN_STOP), accepted)


@rule("log.stopped", PublishedLog, severity=Severity.WARNING)
def stopped(log: PublishedLog) -> Iterator[Fault]:
    """A run stops at the first evaluation that reaches the target.

    Source: training_rules.adoc, Run Results: the clock may be stopped as soon as the target has
    been reached.
    Advice: no action needed: the longer time counts.
    """
    goal = log.target
    later = log.row is not None and log.row.evaluated_later
    for each in log.evaluations[:-1] if goal and log.run and not later else ():
        if log.reaches(each):
            yield log.fault(
                f"{short(each.entry.value)} reaches the target, but the run continues",
                "the end of the run",
                each.entry.line,
            )
            return


@rule("log.converged", PublishedLog, weight=Verdict.NOT_CONVERGED)
def converged(log: PublishedLog) -> Iterator[Fault]:
    """A run reaches the target.

    Source: training_rules.adoc, Benchmark Results: a run that does not counts as the slowest of its
    set.
    Advice: one run of a set may fail to converge; if more do, repeat the set.
    """
    if log.status in log.round.rules.run_statuses[1:]:
        yield log.fault(f"status {log.status}", "success", log.line(events.RUN_STOP))
