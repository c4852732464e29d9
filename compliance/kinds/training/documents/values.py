"""Values in logs of published training rounds: numbers, and evaluation results in the forms that
the rounds use.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from compliance.kinds.training.logs.published import PublishedRecord
from compliance.logs.finite_numbers import (
    MAX_LOGGED_NUMBER,
    is_finite_number,
    parse_finite_number,
)

PERCENT_SCALE: Final = 100.0


def parse_published_scores(value: object, metrics: Mapping[str, str]) -> Mapping[str, float | None]:
    """Parse an eval_accuracy in any form the rounds use: a number, a number as text, a list in the
    order of the metrics, or a table by key.
    """
    if type(value) is float and len(metrics) == 1:  # the usual form
        return {metric: value if is_finite_number(value) else None for metric in metrics}
    if isinstance(value, dict) and isinstance(value.get("accuracy"), dict):
        value = value["accuracy"]
    if isinstance(value, dict):
        return {
            metric: parse_finite_number(value.get(key)) if key else None
            for metric, key in metrics.items()
        }
    if isinstance(value, list):
        if len(value) == len(metrics) > 1:
            return {
                metric: parse_finite_number(each)
                for metric, each in zip(metrics, value, strict=True)
            }
        return dict.fromkeys(metrics)
    return {metric: parse_finite_number(value) if len(metrics) == 1 else None for metric in metrics}


def convert_percent_scores(
    scores: Mapping[str, float | None], percent: bool
) -> Mapping[str, float | None]:
    """Convert percentages to 0-1."""
    if percent:
        return {metric: score and score / PERCENT_SCALE for metric, score in scores.items()}
    return scores


def parse_metadata_numbers(records: Sequence[PublishedRecord], field: str) -> list[float | None]:
    """Read a field of the records' metadata, nearly always a small integer."""
    numbers: list[float | None] = []
    for record in records:
        value = record.metadata.get(field)
        if type(value) is int and -MAX_LOGGED_NUMBER < value < MAX_LOGGED_NUMBER:
            numbers.append(float(value))
        else:
            numbers.append(parse_finite_number(value))
    return numbers
