"""Read the headline value of a performance run from LoadGen's detail log; the judge, scores,
comparisons and reports all use this one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compliance.documents.podium.training import is_finite_number
from compliance.logs.mllog.mllog_lines import MllogRecord
from suite.loadgen.headline import HEADLINE_METRICS
from suite.loadgen.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedHeadline:
    """The result of a performance run."""

    metric: str
    """The metric's name in run.json."""
    value: float
    """In nanoseconds or samples/s."""


def group_records_by_key(records: Iterable[MllogRecord]) -> dict[str, list[MllogRecord]]:
    """Group records by key, in order; if a key repeats, the first record counts, and the judge
    reports it.
    """
    index: dict[str, list[MllogRecord]] = {}
    for record in records:
        index.setdefault(record.key, []).append(record)
    return index


def find_logged_headline(
    index: Mapping[str, Sequence[MllogRecord]], scenario: Scenario | None
) -> LoggedHeadline | None:
    """Return a performance run's result from its detail log; None if the log has no such number."""
    metric, key = HEADLINE_METRICS[scenario] if scenario else ("", "")
    value = index[key][0].value if key in index else None
    return LoggedHeadline(metric=metric, value=float(value)) if is_finite_number(value) else None
