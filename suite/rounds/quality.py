"""Whether scores reach a round's targets: at least or, of some metrics, at most."""

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

NO_BOUNDS: Final[Mapping[str, float]] = MappingProxyType({})


def has_reached_target(
    scores: Mapping[str, float | None],
    target: Mapping[str, float],
    lower_is_better: Collection[str] = (),
    above: Mapping[str, float] = NO_BOUNDS,
) -> bool:
    """Return whether every metric reaches its target, and exceeds its bound in `above`; without
    one, a metric that is lower-is-better exceeds 0.
    """
    for metric, goal in target.items():
        score, lower = scores.get(metric), metric in lower_is_better
        if score is None or not (score <= goal if lower else score >= goal):
            return False
        if score <= above.get(metric, 0.0 if lower else -math.inf):
            return False
    return True


def is_possible_value(
    value: float,
    metric: str,
    lower_is_better: Collection[str] = (),
    below: Mapping[str, float] = NO_BOUNDS,
) -> bool:
    """Return whether an evaluation can have this value: from 0 to 1, below the metric's bound in
    `below`, or any number from 0 on if it is lower-is-better.
    """
    if metric in lower_is_better:
        return 0 <= value < math.inf
    if metric in below:
        return 0 <= value < below[metric]
    return 0 <= value <= 1


def describe_possible_values(
    metric: str, lower_is_better: Collection[str] = (), below: Mapping[str, float] = NO_BOUNDS
) -> str:
    """Describe what `is_possible_value` accepts."""
    if metric in lower_is_better:
        return "a finite number, at least 0"
    if metric in below:
        return f"a finite number, at least 0 and below {below[metric]:g}"
    return "a finite number, at least 0 and at most 1"


def format_target_sign(metric: str, lower_is_better: Collection[str] = ()) -> str:
    """Return the sign between a metric and its target."""
    return "<=" if metric in lower_is_better else ">="


def format_target_value(metric: str, value: str, lower_is_better: Collection[str]) -> str:
    """Format a target for a sentence: where lower is better, `at most` stands before its value."""
    if metric in lower_is_better:
        return f"at most {value}"
    return value


def select_worst_scores(
    runs: Iterable[Mapping[str, float]], lower_is_better: Collection[str] = ()
) -> Mapping[str, float]:
    """Return each metric's score that is furthest from a target: of several runs the lowest or,
    where lower is better, the highest.
    """
    found: dict[str, float] = {}
    for scores in runs:
        for metric, score in scores.items():
            worse = max if metric in lower_is_better else min
            found[metric] = worse(score, found.get(metric, score))
    return found
