"""Points of curves as rows of `podium score`, and the curves beside them."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from submissions.curves.curve import ScoredCurve, ScoredPoint
from submissions.score.log_values import PUBLISHED_PROFILE
from submissions.score.score import Score

POINT_METRIC: Final = "system_tps"
POINT_UNIT: Final = "tokens/s"
COUNTED_FIELDS: Final = ("points", "point_count", "regions", "machine")
"""Fields of a curve that its summary has in another form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointScore(Score):
    """One point of a curve: a row that also has the figures of its latencies and power."""

    path: str
    concurrency: int | None
    region: str | None
    offline: str | None
    system_tps: float | None
    tps_per_user: float | None
    ttft_p90_ms: float | None
    tps_per_kw: float | None
    declared_basis: str
    failed_rules: tuple[str, ...]


def iterate_point_scores(curves: Iterable[ScoredCurve]) -> Iterator[PointScore]:
    """Yield one row per point."""
    for curve in curves:
        yield from (build_point_score(curve, each) for each in curve.points)


def build_point_score(curve: ScoredCurve, point: ScoredPoint) -> PointScore:
    """Build the row of a point."""
    return PointScore(
        org=curve.org,
        system=curve.system,
        division=curve.division,
        profile=PUBLISHED_PROFILE,
        round=curve.round,
        workload=curve.model,
        scenario=None,
        metric=POINT_METRIC,
        value=point.system_tps,
        unit=POINT_UNIT,
        runs=(point.system_tps,),
        machine=curve.machine,
        precision=curve.precision,
        **asdict(point),
    )


def describe_curve(curve: ScoredCurve) -> dict[str, Any]:
    """Return the summary of a curve: what its points share, their number and their peak."""
    fields = asdict(curve)
    shared = {name: value for name, value in fields.items() if name not in COUNTED_FIELDS}
    return shared | {
        "accelerators": curve.machine.accelerators,
        "points": curve.point_count,
    }
