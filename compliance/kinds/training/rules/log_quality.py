"""Check evaluation results, target and final status of a published training log."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compliance.kinds.training.documents.log import PublishedLog
from compliance.kinds.training.documents.values import PERCENT_SCALE, parse_published_scores
from compliance.kinds.training.logs.published import Dialect
from compliance.kinds.training.round import PublishedBenchmark
from compliance.kinds.training.rules.log_identity import format_short_value
from compliance.logs.finite_numbers import is_finite_number, parse_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity, Verdict
from suite import events
from suite.rounds.quality import has_reached_target

PERFECT_SHARE: Final = 1.0
"""Upper bound of accuracies, average precisions, BLEU and areas under a curve, as a share."""
MIN_EQUAL_EVALUATIONS: Final = 3
"""Minimum number of evaluations at which equal results are not a coincidence."""
MAX_EXCESS_SHARE: Final = 0.25
"""Share of the distance from the target to a perfect score: runs that stop at their target end in
the first hundredths of it.
"""


@rule("log.accuracy", PublishedLog, About.QUALITY, doubt="whether the target was reached")
def accuracy(log: PublishedLog) -> Iterator[Fault]:
    """An evaluation's result is a number, or one per metric, in the metric's range. Every
    checkpoint has the metrics that are needed to judge it.

    Source: mlcommons/logging, training_0.7.0/closed_<benchmark>.yaml: BBOX and SEGM, below 1.0;
    accepted logs of v0.6 also contain text, lists and 0-100.
    Advice: log the metric itself, in the round's format and unit.
    """
    if log.row is None:
        return
    if log.free:
        yield from check_evaluation_results(log, log.row)
        yield from check_lacking_metrics(log, log.row)
        return
    evaluations = log.evaluations
    percent = log.row.percent and any(
        raw > PERFECT_SHARE
        for each in evaluations
        if (raw := parse_finite_number(each.entry.value)) is not None
    )
    limit, metrics = PERCENT_SCALE if percent else PERFECT_SHARE, tuple(log.row.metrics.values())
    for each in evaluations:
        record, scores = each.entry, [*each.scores.values()]
        stated = [score for score in scores if score is not None]
        if len(stated) < len(scores) or (
            log.round.events.samples and not has_accuracy_form(record.value, metrics)
        ):
            yield log.build_fault(
                f"eval_accuracy {format_short_value(record.value)}",
                " and ".join(key or "one number" for key in metrics),
                record.line,
            )
        elif stated and not (
            min(stated) >= 0
            and (
                max(stated) < PERFECT_SHARE
                or (max(stated) == PERFECT_SHARE and not log.row.data_set)
            )
        ):
            yield log.build_fault(
                f"eval_accuracy {format_short_value(record.value)}",
                f"at least 0 and below {limit:g}",
                record.line,
            )


def check_evaluation_results(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield results of v1.0 and later that are not numbers in the range of their metric, and
    metrics that a checkpoint lacks.
    """
    single = not row.joined and len(row.metrics) == 1
    for record in log.list_records(events.EVAL_ACCURACY):
        if single and type(record.value) is float and 0 <= record.value <= PERFECT_SHARE:
            continue  # the usual form
        stated_metric = None
        if row.joined:
            stated_metric = record.metadata.get("metric")
        named = {
            metric: key
            for metric, key in row.metrics.items()
            if not row.joined or key == stated_metric
        }
        scores: Mapping[str, float | None]
        if row.joined:
            scores = dict.fromkeys(named, record.value)
        else:
            scores = parse_published_scores(record.value, row.metrics)
        wrong = [
            metric
            for metric in row.metrics
            if metric in scores
            and not is_score_in_range(scores[metric], metric in row.lower_is_better)
        ]
        if row.joined and not named:
            yield log.build_fault(
                f"eval_accuracy of metric {format_short_value(stated_metric)}",
                " or ".join(row.metrics.values()),
                record.line,
            )
        elif wrong or (set(row.metrics.values()) == {""} and not is_finite_number(record.value)):
            wanted = " and ".join(key or "one number" for key in row.metrics.values())
            limits = "from 0 to 1"
            if row.lower_is_better:
                limits = "at least 0"
            yield log.build_fault(
                f"eval_accuracy {format_short_value(record.value)}",
                f"{wanted}, {limits}",
                record.line,
            )


def check_lacking_metrics(log: PublishedLog, row: PublishedBenchmark) -> Iterator[Fault]:
    """Yield checkpoints that lack a metric; one that misses the target in the previous metrics
    needs no other.

    Source: mlcommons/logging, closed_stable_diffusion.yaml: a checkpoint without FID, or without
    CLIP if FID passes, is a KeyError.
    """
    if not row.joined:
        return
    for each in log.evaluations:
        lacking = next((metric for metric in row.metrics if each.scores.get(metric) is None), None)
        measured_targets = {
            metric: goal
            for metric, goal in log.target.items()
            if each.scores.get(metric) is not None
        }
        if lacking is not None and measured_targets and each.epoch is not None:
            passed = has_reached_target(
                each.scores, measured_targets, row.lower_is_better, log.above
            )
            needed = passed or lacking == next(iter(row.metrics))
            found = f"no {row.metrics[lacking]} of the checkpoint at {each.epoch:.12g}"
            yield log.build_fault(
                found,
                " and ".join(row.metrics.values()),
                each.entry.line,
                severity=None if needed else Severity.WARNING,
            )


def is_score_in_range(score: object, lower: bool) -> bool:
    """Return whether a metric can have this result."""
    return is_finite_number(score) and (score >= 0 if lower else 0 <= score <= PERFECT_SHARE)


def has_accuracy_form(value: object, metrics: Sequence[str]) -> bool:
    """Return whether a value has the form of v0.7: a number, or one table with the metrics' own
    keys, if they have any.
    """
    if isinstance(value, dict):
        return any(metrics) and all(is_finite_number(value.get(key)) for key in metrics if key)
    return not any(metrics) and is_finite_number(value)


@rule("log.plausible", PublishedLog, About.QUALITY, severity=Severity.WARNING)
def plausible(log: PublishedLog) -> Iterator[Fault]:
    """Evaluation results are plausible for training: they differ from one another and end not far
    above the target.

    Source: house rule; in accepted logs runs stop at the target; one run has the same result in
    most of its evaluations, and no run in all of them.
    Advice: check which data and labels the evaluation used.
    """
    if log.row is None or not log.row.strict:
        return
    found = [tuple(each.scores.values()) for each in log.evaluations]
    if len(found) >= MIN_EQUAL_EVALUATIONS and len(set(found)) == 1:
        yield log.build_fault(
            f"{format_short_value(log.evaluations[0].entry.value)} in all {len(found)} evaluations",
            "results that differ",
            log.evaluations[0].entry.line,
        )
    limits = {metric: goal + (1 - goal) * MAX_EXCESS_SHARE for metric, goal in log.target.items()}
    for each in log.evaluations:
        for metric, limit in limits.items():
            score = each.scores.get(metric)
            if score is not None and score > limit:
                yield log.build_fault(
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
    Advice: log eval_start when the evaluation begins, and eval_stop when it ends.
    """
    if log.older:
        return
    pairs = zip(
        log.list_records(events.EVAL_START), log.list_records(events.EVAL_STOP), strict=False
    )
    if found := [begun for begun, ended in pairs if ended.time_ns == begun.time_ns]:
        yield log.build_fault(
            f"{len(found)} evaluation(s) of 0 ms", "evaluations that take time", found[0].line
        )


@rule("log.status", PublishedLog, About.QUALITY, doubt="whether the target was reached")
def status(log: PublishedLog) -> Iterator[Fault]:
    """The end of the run has a status from the round.

    Source: mlcommons/logging, common.yaml: 'status' in the metadata of run_stop;
    mllog/constants.py: success, aborted.
    Advice: log success if the target was reached, otherwise aborted.
    """
    if log.older:
        return
    for record in log.list_records(events.RUN_STOP):
        stated = record.metadata.get(events.STATUS)
        if stated not in log.round.rules.run_statuses:
            yield log.build_fault(
                f"run_stop with status {format_short_value(stated)}",
                " or ".join(log.round.rules.run_statuses),
                record.line,
            )


@rule("log.target", PublishedLog, About.QUALITY, doubt="whether the target was reached")
def target(log: PublishedLog) -> Iterator[Fault]:
    """A successful run reaches the target in its last evaluation, and a run that reaches it does
    not report failure.

    Source: training_rules.adoc, Benchmarks, Quality Target, and Quality measure; the benchmark's
    targets.
    Advice: train until an evaluation reaches the target, or log the run as aborted.
    """
    if not log.evaluations or not log.target:
        return
    stop = log.find_record(events.RUN_STOP)
    before = [each for each in log.evaluations if stop and each.entry.order < stop.order]
    last, goal = (
        (before or log.evaluations)[-1],
        ", ".join(f"{metric} {value:g}" for metric, value in log.target.items()),
    )
    if log.succeeded and not log.reached:
        better = "or better" if log.free else "or more"
        yield log.build_fault(
            f"status success, but the last evaluation is {format_short_value(last.entry.value)}",
            f"{goal} {better}",
            last.entry.line,
        )
    elif log.status in log.round.rules.run_statuses[1:] and log.reached:
        # the one such log among the accepted ones
        accepted = None
        if Dialect.SECONDS in log.dialects:
            accepted = Severity.WARNING
        found = (
            f"status {log.status}, but the last evaluation, {format_short_value(last.entry.value)},"
            f" reaches {goal}"
        )
        yield log.build_fault(found, "success", events.RUN_STOP, severity=accepted)


@rule("log.stopped", PublishedLog, About.SCORE, severity=Severity.WARNING)
def stopped(log: PublishedLog) -> Iterator[Fault]:
    """A run stops at the first evaluation that reaches the target.

    Source: training_rules.adoc, Run Results: the clock may be stopped as soon as the target has
    been reached.
    Advice: no action is needed: the longer time counts.
    """
    goal = log.target
    later = log.row is not None and log.row.evaluated_later
    if log.row and log.row.joined:
        last = 1
    else:
        last = log.result_copies
    if goal and log.run and not later:
        for each in log.evaluations[:-last]:
            if log.has_reached_target(each):
                value = format_short_value(each.entry.value)
                yield log.build_fault(
                    f"{value} reaches the target, but the run continues",
                    "the end of the run",
                    each.entry.line,
                )
                return


@rule(
    "log.converged",
    PublishedLog,
    About.QUALITY,
    doubt="whether the target was reached",
    weight=Verdict.NOT_CONVERGED,
)
def converged(log: PublishedLog) -> Iterator[Fault]:
    """A run reaches the target.

    Source: training_rules.adoc, Benchmark Results: a run that does not counts as the slowest of its
    set.
    Advice: one run of a set may fail to converge; if more do, repeat the set.
    """
    if log.status in log.round.rules.run_statuses[1:]:
        yield log.build_fault(f"status {log.status}", "success", events.RUN_STOP)
