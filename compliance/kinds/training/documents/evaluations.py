"""The evaluations in a published training log: the run's progress, and each metric's value."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from compliance.kinds.training.documents.values import (
    convert_percent_scores,
    parse_published_scores,
)
from compliance.kinds.training.logs.published import PublishedRecord
from compliance.kinds.training.round import PublishedBenchmark
from compliance.logs.finite_numbers import parse_finite_number
from suite import events


class PublishedEvaluation(NamedTuple):
    """One evaluation: the epoch that preceded it, and its scores."""

    entry: PublishedRecord
    epoch: float | None
    """The run's progress in its benchmark's unit: epochs, samples or steps; None if the log gives
    no number.
    """
    scores: Mapping[str, float | None]
    """Metric -> value, 0-1; None if it is not a finite number in the round's form."""


def parse_evaluations(
    records: Sequence[PublishedRecord], row: PublishedBenchmark | None
) -> Sequence[PublishedEvaluation]:
    """Read the evaluations; if the benchmark's logs may give percentages, a value above 1 means
    that they do.
    """
    if row and row.joined:
        return merge_metric_records(records, row)
    raw = [
        (record, parse_published_scores(record.value, row.metrics if row else {}))
        for record in records
    ]
    percent = bool(row and row.percent) and any(
        score is not None and score > 1 for _, scores in raw for score in scores.values()
    )
    if row and row.progress:
        fields = row.progress
    else:
        fields = (events.EPOCH_NUM,)
    return [
        PublishedEvaluation(
            entry=record,
            epoch=parse_run_progress(record, fields),
            scores=convert_percent_scores(scores, percent),
        )
        for record, scores in raw
    ]


def parse_run_progress(record: PublishedRecord, fields: Sequence[str]) -> float | None:
    """Return the run's progress at a record; None if none of the fields states it."""
    for field in fields:
        progress = parse_finite_number(record.metadata.get(field))
        if progress is not None:
            return progress
    return None


def merge_metric_records(
    records: Sequence[PublishedRecord], row: PublishedBenchmark
) -> list[PublishedEvaluation]:
    """Merge the metrics of each checkpoint, which have records of their own."""
    names = {key: metric for metric, key in row.metrics.items()}
    found: dict[float | None, PublishedEvaluation] = {}
    for record in records:
        at, metric = parse_run_progress(record, row.progress), record.metadata.get("metric")
        known = found.setdefault(
            at, PublishedEvaluation(entry=record, epoch=at, scores=dict.fromkeys(row.metrics))
        )
        if isinstance(metric, str) and metric in names:
            found[at] = known._replace(
                scores={**known.scores, names[metric]: parse_finite_number(record.value)}
            )
    return list(found.values())
