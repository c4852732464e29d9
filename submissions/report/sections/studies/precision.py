"""A comparison of engines and number formats in a report: its table, and the quality that each
system loses against the speed that it gains, with the test behind each place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Shape
from submissions.report.document import Table as ShownTable
from submissions.report.sections.front_lines import build_front_line
from submissions.report.sections.studies.measured import build_measured_section
from submissions.report.shown_table import build_shown_table
from submissions.tradeoff.quality import (
    FrontPlace,
    QualityFront,
    QualityPoint,
    build_quality_fronts,
)
from suite.columns import UNKNOWN_CELL, Column, Table
from suite.files.layout import convert_to_slug
from suite.human_numbers import format_whole_digits
from suite.measurement.intervals import Interval
from suite.studies.measured import MeasuredStudy

FAR_APART: Final = 20.0
"""Ratio of the highest to the lowest speed from which on the axis is logarithmic."""
PERCENT: Final = 100.0
TIED_MARK: Final = "\u2248"
"""Behind the name of a system whose quality no test separates from the reference's."""
FRONT_NOTE: Final = (
    "Right is faster, down is better. The step line is the Pareto front through the values: the"
    " least quality lost at each speed. A system beside it is off the front only where a test says"
    " that another one, as good and as fast, is better or faster; speed is tested with at least"
    f" two runs of both (--repeats). {TIED_MARK} marks quality that no test separates from the"
    " reference's. Systems that are not compliant are crossed out. The table has the names for"
    " which the picture has no room."
)
LOOSE_SHAPES: Final = {
    FrontPlace.NEAR: Shape.DIAMOND,
    FrontPlace.OFF: Shape.RING,
    FrontPlace.BROKEN: Shape.CROSS,
}


def build_precision_section(study: MeasuredStudy, name: str) -> Section:
    """Show a comparison, with a picture and a table for each metric that was tested in pairs."""
    section = build_measured_section(study, name)
    fronts = [each for each in build_quality_fronts(study) if len(each.points) > 1]
    if not fronts:
        return section
    return replace(
        section,
        charts=tuple(build_quality_chart(each, name) for each in fronts),
        tables=(*section.tables, *map(build_quality_table, fronts)),
        notes=(*section.notes, Note(text=FRONT_NOTE)),
    )


def build_quality_chart(front: QualityFront, name: str) -> Chart:
    """Draw one metric, the front first."""
    speeds = [each.gained for each in front.points]
    return Chart(
        id=f"study-{name}-{convert_to_slug(front.metric)}",
        title=f"{front.metric} lost against speed gained",
        description=describe_front(front),
        x=Axis(
            name=f"speed, as a multiple of {front.reference}",
            log=max(speeds) > FAR_APART * min(speeds),
        ),
        y=Axis(name=f"{front.metric} lost", unit=f"% of {front.score:.4f}"),
        lines=tuple(iterate_quality_lines(front)),
        marks=(Mark(name="nothing lost", value=0.0, upright=False),),
    )


def iterate_quality_lines(front: QualityFront) -> Iterator[Line]:
    """Yield the front, and the points beside it by their place."""
    found = front.list_placed(FrontPlace.FRONT)
    if found:
        places = [locate_point(each, front) for each in found]
        line = build_front_line("Pareto front", places, rising=False)
        yield add_point_details(line, found, front)
    for place, shape in LOOSE_SHAPES.items():
        if found := front.list_placed(place):
            points = tuple(locate_point(each, front) for each in found)
            line = Line(name=place.value, points=points, loose=True, shape=shape)
            yield add_point_details(line, found, front)


def add_point_details(line: Line, points: Sequence[QualityPoint], front: QualityFront) -> Line:
    """Add names and intervals to the points of a line."""
    lost = [each.lost_interval for each in points]
    return replace(
        line,
        names=tuple(map(name_drawn_point, points)),
        x_intervals=convert_to_ends([each.speed_interval for each in points], 1.0),
        y_intervals=convert_to_ends(lost, PERCENT / front.score),
    )


def locate_point(point: QualityPoint, front: QualityFront) -> tuple[float, float]:
    """Return where a point lies."""
    return point.gained, PERCENT * point.lost / front.score


def name_drawn_point(point: QualityPoint) -> str:
    """Name a point, marked if its quality is not separable from the reference's."""
    return f"{point.name} {TIED_MARK}" if point.is_tied else point.name


def convert_to_ends(
    intervals: Sequence[Interval | None], factor: float
) -> tuple[tuple[float, float] | None, ...]:
    """Return the ends of intervals for a line; nothing if no point has one."""
    if not any(intervals):
        return ()
    return tuple(
        None if each is None else (each.low * factor, each.high * factor) for each in intervals
    )


def describe_front(front: QualityFront) -> str:
    """Tell the front in words, and how many systems lie beside it."""
    found = front.list_placed(FrontPlace.FRONT)
    told = "; ".join(map(describe_quality_point, reversed(found)))
    beside = (
        f"{place.value}: {', '.join(each.name for each in others)}"
        for place in LOOSE_SHAPES
        if (others := front.list_placed(place))
    )
    parts = [f"{len(front.points)} systems, on the front {len(found)}: {told}", *beside]
    return f"{'. '.join(each[:1].upper() + each[1:] for each in parts)}."


def describe_quality_point(point: QualityPoint) -> str:
    """Tell what a system gains and loses."""
    lost = "the reference"
    if point.difference is not None:
        tied = " (not separable)" if point.is_tied else ""
        lost = f"{point.lost:+.4f} lost{tied}"
    return f"{point.name}, speed x {format_whole_digits(point.gained, 3)}, {lost}"


def tell_speed(point: QualityPoint) -> str:
    """Format the speed that is gained."""
    return format_whole_digits(point.gained, 3)


def tell_lost(point: QualityPoint) -> str:
    """Format the quality that is lost; a dash for the reference."""
    return UNKNOWN_CELL if point.difference is None else f"{point.lost:+.4f}"


def tell_speed_interval(point: QualityPoint) -> str:
    """Format the interval of the speed; a dash without one."""
    found = point.speed_interval
    return UNKNOWN_CELL if found is None else f"{found.low:.3f} to {found.high:.3f}"


def tell_lost_interval(point: QualityPoint) -> str:
    """Format the interval of the quality lost; a dash without one."""
    found = point.lost_interval
    return UNKNOWN_CELL if found is None else f"{found.low:+.4f} to {found.high:+.4f}"


def tell_quality_test(point: QualityPoint) -> str:
    """Say whether a test separates the quality from the reference's."""
    if point.difference is None:
        return "the reference"
    return "not separable" if point.is_tied else "separable"


def tell_place(point: QualityPoint) -> str:
    """Say where a system lies, with the test behind it."""
    return f"{point.place}: {point.reason}" if point.reason else point.place.value


QUALITY_TABLE: Final[Table[QualityPoint]] = Table(
    columns=(
        Column("system", attrgetter("name")),
        Column("gained", attrgetter("gained"), title="speed", numeric=True, tell=tell_speed),
        Column(
            "speed_interval",
            attrgetter("speed_interval"),
            title="95 % interval of it",
            tell=tell_speed_interval,
        ),
        Column("lost", attrgetter("lost"), title="quality lost", numeric=True, tell=tell_lost),
        Column(
            "lost_interval",
            attrgetter("lost_interval"),
            title="95 % interval of it",
            tell=tell_lost_interval,
        ),
        Column("tied", attrgetter("is_tied"), title="from the reference", tell=tell_quality_test),
        Column("place", attrgetter("place"), title="Pareto front", tell=tell_place),
    )
)


def build_quality_table(front: QualityFront) -> ShownTable:
    """Build the table of one metric."""
    return build_shown_table(f"{front.metric} lost, speed gained", QUALITY_TABLE, front.points)
