"""Quality lost against speed gained as data: the systems of a comparison of engines and number
formats, with the Pareto front, and the test behind each system that is off it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from submissions.compare.intervals import compare_log_spreads, estimate_ratio_interval
from suite.measurement.intervals import INTERVAL_CONFIDENCE, Interval, compute_log_spread
from suite.measurement.paired import PairedDifference
from suite.studies.answered_set import compare_scores, list_unequal_answers
from suite.studies.kind import StudiedRow
from suite.studies.measured import MeasuredStudy
from suite.studies.points import is_separable
from suite.studies.precision import compute_speed_up, find_comparison, find_row_scores
from suite.studies.precision_rows import explain_row, name_system

SPEED_FIGURE: Final = "samples_per_second"
"""Offline: the figure whose quotient is the speed that is gained."""


class FrontPlace(StrEnum):
    """Where a system lies: beside the front only if a test says so."""

    FRONT = "on the front"
    NEAR = "not separable from the front"
    OFF = "off the front"
    BROKEN = "not compliant"


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPoint:
    """One system: what it loses in a metric and gains in speed, against the reference."""

    row: StudiedRow
    name: str
    difference: PairedDifference | None
    """Of the metric, on the same samples; None of the reference itself."""
    gained: float
    """Rate as a multiple of the reference's."""
    speed_interval: Interval | None
    """95 % interval of that quotient; None with fewer than three runs of either."""
    place: FrontPlace = FrontPlace.NEAR
    reason: str = ""
    """The test that puts it off the front, or why it is not compliant."""

    @property
    def lost(self) -> float:
        """Return what it loses in the metric; negative if it gains."""
        return 0.0 - self.difference.difference if self.difference else 0.0

    @property
    def lost_interval(self) -> Interval | None:
        """Return the 95 % interval of that; None of the reference."""
        if self.difference is None:
            return None
        return Interval(low=0.0 - self.difference.high, high=0.0 - self.difference.low)

    @property
    def is_tied(self) -> bool:
        """Return whether no test separates its quality from the reference's."""
        return self.difference is not None and not self.difference.is_separable


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityFront:
    """One metric of a comparison."""

    metric: str
    reference: str
    """Name of the system that the others are compared with."""
    score: float
    """Of that system; not 0."""
    points: tuple[QualityPoint, ...]
    """By rising speed."""

    def list_placed(self, place: FrontPlace) -> list[QualityPoint]:
        """Return the points of a place."""
        return [each for each in self.points if each.place is place]


def build_quality_fronts(study: MeasuredStudy) -> list[QualityFront]:
    """Build a figure for each metric in which systems were compared in pairs; none of a metric in
    which the reference scores 0.
    """
    rows, reference = study.rows, study.answer.reference
    base = next((row for row in rows if name_system(row.point.system) == reference), None)
    metrics = dict.fromkeys(
        metric for each in study.answer.compared.values() for metric in each.metrics
    )
    if base is None:
        return []
    scores = find_row_scores(base)
    return [
        QualityFront(
            metric=metric,
            reference=reference,
            score=scores[metric],
            points=tuple(place_points(list_metric_points(rows, base, metric), metric)),
        )
        for metric in metrics
        if scores.get(metric)
    ]


def list_metric_points(
    rows: Sequence[StudiedRow], base: StudiedRow, metric: str
) -> list[QualityPoint]:
    """Return the systems with a rate and a difference in this metric, by rising speed."""
    points = []
    for row in rows:
        name, gained = name_system(row.point.system), compute_speed_up(row)
        compared = find_comparison(row)
        difference = compared.metrics.get(metric) if compared else None
        if gained is None or (difference is None and row is not base):
            continue
        points.append(
            QualityPoint(
                row=row,
                name=name,
                difference=difference,
                gained=gained,
                speed_interval=estimate_speed_interval(base, row),
            )
        )
    return sorted(points, key=lambda each: (each.gained, each.lost))


def estimate_speed_interval(base: StudiedRow, row: StudiedRow) -> Interval | None:
    """Return the interval of a rate as a multiple of the reference's; None of the reference, or
    with too few runs.
    """
    spreads = [
        compute_log_spread([getattr(run.figures, SPEED_FIGURE) for run in each.studied.runs])
        for each in (base, row)
    ]
    if row is base or spreads[0] is None or spreads[1] is None:
        return None
    found = compare_log_spreads(spreads[0], spreads[1], more_is_better=True)
    return None if found is None else estimate_ratio_interval(found, INTERVAL_CONFIDENCE)


def place_points(points: Sequence[QualityPoint], metric: str) -> Iterator[QualityPoint]:
    """Yield points with their place. The front goes through values: no other system is as fast and
    as good, and better in one of them. Beside it, a system is off the front only if a test
    separates it from one that is as fast and as good.
    """
    fit = [each for each in points if not explain_row(each.row.studied)]
    for point in points:
        if why := explain_row(point.row.studied):
            yield replace(point, place=FrontPlace.BROKEN, reason=why)
            continue
        above = [each for each in fit if is_above(each, point)]
        tested = (explain_test(each, point, metric) for each in above)
        reason = next(filter(None, tested), "")
        place = FrontPlace.OFF if reason else FrontPlace.NEAR
        yield replace(point, place=place if above else FrontPlace.FRONT, reason=reason)


def is_above(one: QualityPoint, other: QualityPoint) -> bool:
    """Return whether a system is as fast and as good as another one, and better in one of them."""
    return (
        one.gained >= other.gained
        and one.lost <= other.lost
        and (one.gained, one.lost) != (other.gained, other.lost)
    )


def explain_test(better: QualityPoint, worse: QualityPoint, metric: str) -> str:
    """Return the test that separates two systems; empty if none does."""
    quality = compare_quality(better.row, worse.row, metric)
    if quality is not None and quality.is_separable and quality.difference > 0:
        return f"{better.name} is as fast, and better ({quality.test} p {quality.p:.2g})"
    if is_separable(better.row.studied, worse.row.studied, SPEED_FIGURE):
        return f"{better.name} is as good, and faster (Welch's test, 5 %)"
    return ""


def compare_quality(one: StudiedRow, other: StudiedRow, metric: str) -> PairedDifference | None:
    """Compare a metric of two systems on the same samples; None without their answers."""
    mine, others = one.find_figure("answers"), other.find_figure("answers")
    if mine is None or others is None:
        return None
    return compare_scores(mine, others, len(list_unequal_answers(mine, others))).get(metric)
