"""Whether scores reach a round's targets: at least or, of some metrics, at most."""

from collections.abc import Collection, Mapping


def has_reached_target(
    scores: Mapping[str, float | None],
    target: Mapping[str, float],
    lower_is_better: Collection[str] = (),
) -> bool:
    """Return whether every metric reaches its target."""
    return all(
        (score := scores.get(metric)) is not None
        and (score <= goal if metric in lower_is_better else score >= goal)
        for metric, goal in target.items()
    )


def format_target_sign(metric: str, lower_is_better: Collection[str] = ()) -> str:
    """Return the sign between a metric and its target."""
    return "<=" if metric in lower_is_better else ">="


def select_worst_scores(
    runs: Collection[Mapping[str, float]], lower_is_better: Collection[str] = ()
) -> Mapping[str, float]:
    """Return of each metric the score that is furthest from a target."""
    found: dict[str, float] = {}
    for scores in runs:
        for metric, score in scores.items():
            worse = max if metric in lower_is_better else min
            found[metric] = worse(score, found.get(metric, score))
    return found
