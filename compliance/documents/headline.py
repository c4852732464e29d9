"""Read the headline value of a performance run from LoadGen's detail log; the judge, scores,
comparisons and reports all use this one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compliance.documents.podium.training import is_finite_number
from compliance.logs.mllog.mllog_lines import MllogRecord
from suite.loadgen.headline import REQUESTED_TOKENS_KEY, select_headline_metric
from suite.loadgen.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedHeadline:
    """The result of a performance run."""

    metric: str
    """The metric's name in run.json."""
    value: float
    """In nanoseconds, samples/s or tokens/s."""


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
    measures_tokens = bool(find_first_value(index, REQUESTED_TOKENS_KEY))
    metric, key = select_headline_metric(scenario, measures_tokens) if scenario else ("", "")
    value = find_logged_number(index, key)
    return None if value is None else LoggedHeadline(metric=metric, value=value)


def find_logged_number(index: Mapping[str, Sequence[MllogRecord]], key: str) -> float | None:
    """Return the first value of a key as a finite number; None if the log has no such number."""
    value = find_first_value(index, key)
    return float(value) if is_finite_number(value) else None


def find_first_value(index: Mapping[str, Sequence[MllogRecord]], key: str) -> object:
    """Return the first value of a key; None if the log has none."""
    return index[key][0].value if key in index else None
