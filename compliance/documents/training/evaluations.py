"""The evaluations in a published training log: the run's progress, and each metric's value."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from compliance.documents.training.values import number, scaled, scores_of
from compliance.logs.mllog.published import Entry
from suite import events
from suite.rounds.published_training import PublishedBenchmark


class Evaluation(NamedTuple):
    """One evaluation: the epoch that preceded it, and its scores."""

    entry: Entry
    epoch: float | None
    """The run's progress in its benchmark's unit: epochs, samples or steps; None if the log gives
    no number.
    """
    scores: Mapping[str, float | None]
    """Metric -> value, 0-1; None if it is not a finite number in the round's form."""


def evaluations_of(
    records: Sequence[Entry], row: PublishedBenchmark | None
) -> Sequence[Evaluation]:
    """Read the evaluations; if the benchmark's logs may give percentages, a value above 1 means
    that they do.
    """
    if row and row.joined:
        return joined(records, row)
    raw = [(record, scores_of(record.value, row.metrics if row else {})) for record in records]
    percent = bool(row and row.percent) and any(
        score is not None and score > 1 for _, scores in raw for score in scores.values()
    )
    fields = row.progress if row and row.progress else (events.EPOCH_NUM,)
    return [
        Evaluation(entry=record, epoch=place_of(record, fields), scores=scaled(scores, percent))
        for record, scores in raw
    ]


def place_of(record: Entry, fields: Sequence[str]) -> float | None:
    """Return the run's progress at a record; None if none of the fields states it."""
    for field in fields:
        told = number(record.metadata.get(field))
        if told is not None:
            return told
    return None


def joined(records: Sequence[Entry], row: PublishedBenchmark) -> list[Evaluation]:
    """Merge the metrics of each checkpoint, which have records of their own."""
    names = {key: metric for metric, key in row.metrics.items()}
    found: dict[float | None, Evaluation] = {}
    for record in records:
        at, metric = place_of(record, row.progress), record.metadata.get("metric")
        known = found.setdefault(
            at, Evaluation(entry=record, epoch=at, scores=dict.fromkeys(row.metrics))
        )
        if isinstance(metric, str) and metric in names:
            found[at] = known._replace(scores={**known.scores, names[metric]: number(record.value)})
    return list(found.values())
