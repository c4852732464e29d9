"""The curves of a report: throughput against speed per user, the time to the first token against
the number of requests in flight, and a table with the same values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from compliance.results.curves import ScoredCurve
from submissions.curves.comparison import (
    NOT_SEPARABLE,
    RATE,
    SPEED,
    CurveComparison,
    is_clearly_dominated,
    is_dominated_point,
    select_counted_points,
    select_front_points,
)
from submissions.curves.point_columns import (
    POINT_COLUMNS,
    REGION_NAMES,
    build_point_figure_column,
    format_figure,
)
from submissions.curves.tables import (
    describe_step_test,
    format_curve_conclusion,
    iterate_comparison_heading,
    iterate_comparison_remarks,
    iterate_comparison_tables,
    iterate_curve_notes,
)
from submissions.report.document import (
    Axis,
    Band,
    Chart,
    Line,
    Mark,
    Note,
    Section,
    Shape,
    Table,
    Tile,
    Tone,
)
from submissions.report.sections.front_lines import build_dominated_line, build_front_line
from submissions.report.shown_table import build_shown_table
from suite import columns
from suite.columns import UNKNOWN_CELL, Column
from suite.files.layout import convert_to_slug
from suite.measurement.intervals import Interval
from suite.result import ScoredPoint

RATE_AXIS: Final = Axis(name="throughput", unit="tokens/s", log=True)
TTFT_AXIS: Final = Axis(name="TTFT P90", unit="ms", log=True)
TTFT: Final = "ttft_p90_ms"
AXIS_ROOM: Final = 0.8
"""Share of the slowest point's speed at which its axis begins."""
STEP_NOTE: Final = (
    "The line is a step function: it shows the highest throughput at which each user still gets at"
    " least so many tokens per second, without interpolation."
)


def build_curve_section(curve: ScoredCurve, *, several: bool) -> Section:
    """Draw one curve; `several` means that the report has others, so that each names itself."""
    name = f"{curve.model}, {curve.system}"
    if curve.compliant:
        tone = Tone.PLAIN
    else:
        tone = Tone.CAUTION
    id = convert_to_slug(
        "-".join(("curve", curve.org, curve.submission, curve.system, curve.model))
    )
    return Section(
        id=id,
        title=f"Curve: {name}" if several else "Curve",
        intro=describe_curve_extent(curve),
        charts=tuple(iterate_curve_charts(curve, id, f": {name}" if several else "")),
        notes=tuple(Note(text=each, tone=tone) for each in iterate_curve_notes(curve)),
        tables=(build_points_table(curve),),
    )


def describe_curve_extent(curve: ScoredCurve) -> str:
    """Describe a curve's points, their range and the peak."""
    return (
        f"{curve.point_count} points of {curve.origin}, each {describe_point_runs(curve)}: C_min"
        f" {curve.c_min or UNKNOWN_CELL}, C_max {curve.c_max or UNKNOWN_CELL}, peak"
        f" {format_figure(curve.peak, 'tokens/s')}."
    )


def describe_point_runs(curve: ScoredCurve) -> str:
    """Say of how many runs a point's figures are."""
    if curve.runs == 1:
        return "one run"
    return f"the mean of {curve.runs} runs"


def iterate_curve_charts(curve: ScoredCurve, id: str, origin: str) -> Iterator[Chart]:
    """Yield the two panels; one without points is left out."""
    rates = tuple(iterate_rate_lines(curve))
    if rates:
        yield Chart(
            id=f"{id}-rate",
            title=f"Throughput against speed per user{origin}",
            description=describe_rate_panel(curve),
            x=build_speed_axis(rates),
            y=RATE_AXIS,
            lines=rates,
            marks=tuple(iterate_offline_marks(curve)),
        )
    times = tuple(iterate_ttft_lines(curve))
    if times:
        yield Chart(
            id=f"{id}-ttft",
            title=f"Time to the first token{origin}",
            description=describe_ttft_panel(curve),
            x=Axis(
                name="requests in flight",
                log=True,
                whole=True,
                low=curve.c_min / 2 if curve.c_min else None,
            ),
            y=TTFT_AXIS,
            lines=times,
            bands=tuple(iterate_region_bands(curve)),
        )


def build_speed_axis(lines: Sequence[Line]) -> Axis:
    """Build the axis of speeds per user, with room before the slowest point."""
    slowest = min(speed for line in lines for speed, _ in line.points)
    return Axis(name="speed per user", unit="tokens/s", log=True, low=AXIS_ROOM * slowest)


def iterate_rate_lines(curve: ScoredCurve) -> Iterator[Line]:
    """Yield the step line, the dominated points, and the points that break a rule."""
    counted = select_counted_points(curve)
    front = select_front_points(curve)
    if front:
        line = build_front_line("curve", place_rates_in_panel(front), rising=False)
        yield replace(
            line,
            x_intervals=list_drawn_intervals(front, SPEED),
            y_intervals=list_drawn_intervals(front, RATE),
        )
    for name, points in group_broken_points(curve).items():
        if places := place_rates_in_panel(points):
            yield Line(name=name, points=places, loose=True, shape=Shape.CROSS)
    besides = [each for each in counted if each not in front]
    dominated = [each for each in besides if is_beaten_point(each, counted)]
    close = [each for each in besides if each not in dominated]
    for name, points in (("dominated", dominated), (NOT_SEPARABLE, close)):
        if points:
            yield build_dominated_line(name, place_rates_in_panel(points))


def is_beaten_point(point: ScoredPoint, counted: Sequence[ScoredPoint]) -> bool:
    """Return whether a point that counts dominates a point beyond the intervals of both."""
    return any(is_clearly_dominated(point, other) for other in counted)


def iterate_ttft_lines(curve: ScoredCurve) -> Iterator[Line]:
    """Yield the times of the points that count, and of those that break a rule."""
    counted = select_counted_points(curve)
    if places := place_times_in_panel(counted):
        drawn = [each for each in counted if place_times_in_panel([each])]
        intervals = list_drawn_intervals(drawn, TTFT)
        yield Line(name="TTFT P90", points=places, dots=True, y_intervals=intervals)
    for name, points in group_broken_points(curve).items():
        if places := place_times_in_panel(points):
            yield Line(name=name, points=places, loose=True, shape=Shape.CROSS)


def list_drawn_intervals(
    points: Sequence[ScoredPoint], figure: str
) -> tuple[tuple[float, float] | None, ...]:
    """List the intervals of a line's points; nothing if no point has one."""
    found = [each.intervals.get(figure) for each in points]
    if not any(found):
        return ()
    return tuple(None if each is None else (each.low, each.high) for each in found)


def place_rates_in_panel(points: Sequence[ScoredPoint]) -> tuple[tuple[float, float], ...]:
    """Return where points lie in the first panel."""
    figures = [(each.tps_per_user, each.system_tps) for each in points]
    return tuple((speed, rate) for speed, rate in figures if speed and rate)


def place_times_in_panel(points: Sequence[ScoredPoint]) -> tuple[tuple[float, float], ...]:
    """Return where points lie in the second panel."""
    figures = [(each.concurrency, each.ttft_p90_ms) for each in points]
    return tuple((float(count), time) for count, time in figures if count and time)


def group_broken_points(curve: ScoredCurve) -> dict[str, list[ScoredPoint]]:
    """Return the points with a fixed number of requests that break a rule, by what they break."""
    found: dict[str, list[ScoredPoint]] = {}
    for point in curve.points:
        if point.is_fixed and point.failed_rules:
            first, *others = point.failed_rules
            name = f"breaks {first}" + (f" and {len(others)} more" if others else "")
            found.setdefault(name, []).append(point)
    return found


def iterate_offline_marks(curve: ScoredCurve) -> Iterator[Mark]:
    """Yield the ceiling: the rate of the Offline result, which has no speed per user."""
    if curve.offline_tps:
        name = f"Offline {format_figure(curve.offline_tps)}"
        yield Mark(name=name, value=curve.offline_tps, upright=False)


def iterate_region_bands(curve: ScoredCurve) -> Iterator[Band]:
    """Yield the regions as ranges of requests in flight."""
    if curve.regions is None:
        return
    found = curve.regions
    ends = (
        found.c_min / 2,
        found.c_min,
        found.low_end,
        found.medium_end,
        found.c_max,
        found.margin_end,
    )
    for name, (low, high) in zip(REGION_NAMES, pairwise(ends), strict=False):
        if high > low:
            yield Band(name=REGION_NAMES[name], low=float(low), high=float(high))


def describe_rate_panel(curve: ScoredCurve) -> str:
    """Describe the first panel in words."""
    front = select_front_points(curve)
    parts = [STEP_NOTE]
    if front:
        fast, slow = front[-1], front[0]
        parts.append(
            f"From {format_figure(slow.system_tps)} tokens/s at"
            f" {format_figure(slow.tps_per_user)} tokens/s per user to"
            f" {format_figure(fast.system_tps)} at {format_figure(fast.tps_per_user)}."
        )
    if curve.offline_tps:
        parts.append(
            f"The dashed line is the Offline result, {format_figure(curve.offline_tps)} tokens/s."
        )
    if group_broken_points(curve):
        parts.append("Crossed points break a rule and do not count.")
    return " ".join(parts)


def describe_ttft_panel(curve: ScoredCurve) -> str:
    """Describe the second panel in words."""
    places = place_times_in_panel(select_counted_points(curve))
    parts = ["90 of 100 answers begin within this time."]
    if places:
        parts.append(
            f"From {format_figure(places[0][1], 'ms')} at {places[0][0]:.0f} requests in flight to"
            f" {format_figure(places[-1][1], 'ms')} at {places[-1][0]:.0f}."
        )
    if curve.regions is not None:
        found = curve.regions
        parts.append(
            f"Regions: low latency up to {found.c_min} requests in flight, low up to"
            f" {found.low_end}, medium up to {found.medium_end}, high up to {found.c_max}, margin"
            f" up to {found.margin_end}."
        )
    return " ".join(parts)


class DrawnPoint(NamedTuple):
    """A point, and how it is drawn."""

    point: ScoredPoint
    role: str


def build_drawn_column(column: Column[ScoredPoint]) -> Column[DrawnPoint]:
    """Return a column of points for those that are drawn."""
    return columns.build_part_column(column, lambda row: row.point)


POINT_TABLE: Final[columns.Table[DrawnPoint]] = columns.Table(
    columns=(
        *map(
            build_drawn_column,
            (
                *(POINT_COLUMNS[name] for name in ("region", "concurrency", "system_tps")),
                build_point_figure_column("tps_per_user", "tokens/s per user"),
                build_point_figure_column("ttft_p90_ms", "TTFT P90, ms"),
                build_point_figure_column("tps_per_kw", "tokens/s per kW"),
                POINT_COLUMNS["basis"],
            ),
        ),
        Column("in the figures", lambda row: row.role),
    )
)
"""The points with the values of both panels."""


def build_points_table(curve: ScoredCurve) -> Table:
    """List the points with the values of both panels."""
    counted = select_counted_points(curve)
    rows = [DrawnPoint(each, describe_point_role(each, counted)) for each in curve.points]
    return build_shown_table("Points", POINT_TABLE, rows)


def describe_point_role(point: ScoredPoint, counted: Sequence[ScoredPoint]) -> str:
    """Say how a point is drawn."""
    if not point.compliant:
        return f"crossed out, breaks {', '.join(point.failed_rules)}"
    if not point.is_fixed:
        return "dashed line"
    if point not in counted:
        return "no"
    if is_beaten_point(point, counted):
        return "dominated"
    if any(is_dominated_point(point, other) for other in counted):
        return f"{NOT_SEPARABLE} from the curve"
    return "on the curve"


def build_curve_comparison_section(
    found: Sequence[CurveComparison], unpaired: Sequence[str]
) -> Section:
    """Compare curves as `podium compare` does; `unpaired` are those that are compared with none."""
    tests = dict.fromkeys(map(describe_step_test, found))
    return Section(
        id="curve-comparison",
        title="Comparison of curves",
        intro=" ".join(f"{each[0].upper()}{each[1:]}." for each in tests),
        notes=tuple(Note(text=each) for each in unpaired),
        parts=tuple(
            Section(
                id=f"curve-comparison-{number}",
                title=f"{each.other.model}: {format_curve_conclusion(each)}",
                intro="; ".join(iterate_comparison_heading(each)),
                notes=tuple(Note(text=line) for line in iterate_comparison_remarks(each)),
                tables=tuple(
                    build_shown_table(f"By {table.columns[0].heading}", table, steps)
                    for table, steps in iterate_comparison_tables(each)
                ),
            )
            for number, each in enumerate(found, 1)
        ),
    )


def build_curve_tile(curve: ScoredCurve, *, several: bool) -> Tile:
    """Return the headline of a curve: its peak."""
    unfit = ". Not compliant"
    if curve.compliant:
        unfit = ""
    known = find_peak_interval(curve)
    tested = "not tested"
    if known is not None:
        tested = f"{format_figure(known.low)} to {format_figure(known.high)}"
    return Tile(
        name=f"{curve.model}: peak",
        value=format_figure(curve.peak),
        unit="tokens/s",
        note=f"{tested}: {describe_point_runs(curve)} per point{unfit}",
        tone=Tone.PLAIN if curve.compliant else Tone.BAD,
        origin=f"{curve.org} {curve.system}".strip() if several else "",
    )


def find_peak_interval(curve: ScoredCurve) -> Interval | None:
    """Return the interval of a curve's peak; None if it has none."""
    found = (each.intervals.get(RATE) for each in curve.points if each.system_tps == curve.peak)
    return next(filter(None, found), None)


def describe_curve_systems(curves: Sequence[ScoredCurve]) -> Iterator[tuple[str, str]]:
    """Yield the facts: who submitted what, and on which machine."""
    described = (
        ("Round", [each.round for each in curves]),
        ("Cohort", [each.cohort for each in curves]),
        ("Division", [each.division for each in curves]),
        ("Organisation", [each.org for each in curves]),
        ("System", [each.system for each in curves]),
        ("Machine", [str(each.machine) for each in curves]),
        ("Serving", [each.served.describe_engine() for each in curves if each.served]),
        ("Precision", [each.precision or "" for each in curves if not each.served]),
        ("Data set", [each.dataset for each in curves]),
    )
    for name, values in described:
        if words := ("; " if name == "Machine" else ", ").join(dict.fromkeys(filter(None, values))):
            yield name, words
