"""The headline value of a performance run, from LoadGen's detail log; the judge, scores,
comparisons and reports all take it from here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compliance.documents.podium.training import finite
from compliance.logs.mllog.mllog_lines import Record
from suite.loadgen.headline import METRICS
from suite.loadgen.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The result of a performance run."""

    metric: str
    """The metric's name in run.json."""
    value: float
    """In nanoseconds or samples/s."""


def indexed(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by key, in order; if a key repeats, the first record counts, and the judge
    objects.
    """
    index: dict[str, list[Record]] = {}
    for record in records:
        index.setdefault(record.key, []).append(record)
    return index


def headline_of(
    index: Mapping[str, Sequence[Record]], scenario: Scenario | None
) -> Headline | None:
    """Return a performance run's result from its detail log; None if the log has no such number."""
    metric, key = METRICS[scenario] if scenario else ("", "")
    value = index[key][0].value if key in index else None
    return Headline(metric=metric, value=float(value)) if finite(value) else None
