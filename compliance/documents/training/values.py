"""Values in logs of published training rounds: numbers, and evaluation results in the forms that
the rounds use.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeGuard

from compliance.logs.mllog.published import Entry

LARGEST: Final = 1e30
PERCENT: Final = 100.0
NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


def scores_of(value: object, metrics: Mapping[str, str]) -> Mapping[str, float | None]:
    """Parse an eval_accuracy in any form the rounds use: a number, a number as text, a list in the
    order of the metrics, or a table by key.
    """
    if type(value) is float and len(metrics) == 1:  # the usual form
        return {metric: value if finite(value) else None for metric in metrics}
    if isinstance(value, dict) and isinstance(value.get("accuracy"), dict):
        value = value["accuracy"]
    if isinstance(value, dict):
        return {metric: number(value.get(key)) if key else None for metric, key in metrics.items()}
    if isinstance(value, list):
        return (
            {metric: number(each) for metric, each in zip(metrics, value, strict=True)}
            if len(value) == len(metrics) > 1
            else dict.fromkeys(metrics)
        )
    return {metric: number(value) if len(metrics) == 1 else None for metric in metrics}


def scaled(scores: Mapping[str, float | None], percent: bool) -> Mapping[str, float | None]:
    """Convert percentages to 0-1."""
    return (
        {metric: score and score / PERCENT for metric, score in scores.items()}
        if percent
        else scores
    )


def reaches(
    scores: Mapping[str, float | None],
    target: Mapping[str, float],
    lower: Sequence[str] = (),
    above: Mapping[str, float] = NOTHING,
) -> bool:
    """Return whether every metric reaches its target: at most the target for those in `lower`, at
    least for the others, and beyond what is in `above`.
    """
    for metric, goal in target.items():
        score, worse = scores.get(metric), metric in lower
        if (
            score is None
            or (score > goal if worse else score < goal)
            or score <= above.get(metric, 0.0 if worse else -LARGEST)
        ):
            return False
    return True


def numbers(records: Sequence[Entry], field: str) -> list[float | None]:
    """Read a field of the records' metadata, nearly always a small integer."""
    return [
        (
            float(value)
            if type(value := record.metadata.get(field)) is int and -LARGEST < value < LARGEST
            else number(value)
        )
        for record in records
    ]


def number(value: object) -> float | None:
    """Parse a finite number, or text that is one; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if finite(value) else None


def finite(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite number small enough for arithmetic; booleans do not
    count.
    """
    return type(value) in (int, float) and -LARGEST < value < LARGEST  # type: ignore[operator]
