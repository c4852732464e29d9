"""The headline value of a performance run, from LoadGen's detail log; judge, scores, comparisons and reports all read it here."""

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
    """As run.json names it."""
    value: float
    """Nanoseconds or samples/s."""


def indexed(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of each key, in order; of a key that occurs twice the first counts, and the judge objects."""
    index: dict[str, list[Record]] = {}
    for record in records:
        index.setdefault(record.key, []).append(record)
    return index


def headline_of(index: Mapping[str, Sequence[Record]], scenario: Scenario | None) -> Headline | None:
    """Return the result of a performance run by its detail log; None if the log has no such number."""
    metric, key = METRICS[scenario] if scenario else ("", "")
    value = index[key][0].value if key in index else None
    return Headline(metric=metric, value=float(value)) if finite(value) else None
