"""Points of curves as rows of `podium score`, and the curves beside them."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from compliance.results.curves import ScoredCurve
from suite.result import (
    PUBLISHED_PROFILE,
    Figure,
    Judgement,
    MadeWith,
    Result,
    ResultPlace,
    ScoredPoint,
)

POINT_METRIC: Final = "system_tps"
POINT_UNIT: Final = "tokens/s"
COUNTED_FIELDS: Final = ("points", "point_count", "regions", "machine", "runs")
"""Fields of a curve that its summary has in another form."""


def iterate_point_scores(curves: Iterable[ScoredCurve]) -> Iterator[Result]:
    """Yield one row per point."""
    for curve in curves:
        yield from (build_point_score(curve, each) for each in curve.points)


def build_point_score(curve: ScoredCurve, point: ScoredPoint) -> Result:
    """Build the row of a point."""
    return Result(
        place=ResultPlace(
            round=curve.round,
            profile=PUBLISHED_PROFILE,
            division=curve.division,
            org=curve.org,
            system=curve.system,
            workload=curve.model,
        ),
        figure=Figure(
            metric=POINT_METRIC,
            unit=POINT_UNIT,
            value=point.system_tps,
            runs=(point.system_tps,),
            basis=point.basis,
        ),
        machine=curve.machine,
        made_with=MadeWith(precision=curve.precision, served=curve.served),
        judgement=Judgement(compliant=point.compliant, errors=point.failed_rules),
        point=point,
    )


def describe_curve(curve: ScoredCurve) -> dict[str, Any]:
    """Return the summary of a curve: what its points share, their number and their peak."""
    fields = asdict(curve)
    shared = {name: value for name, value in fields.items() if name not in COUNTED_FIELDS}
    return shared | {
        "accelerators": curve.machine.accelerators,
        "points": curve.point_count,
    }
