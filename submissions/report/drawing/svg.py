"""Draws charts as SVG: no library, no script, and readable without styles, since every element has
its own drawing attributes.

Colours come from the page's classes; without them everything has the text's colour, and dash
patterns distinguish the series.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from markupsafe import Markup

from submissions.report.document import Band, Chart, Line, Shape
from submissions.report.drawing.axis_scale import (
    AxisScale,
    choose_axis_scale,
    format_axis_title,
    format_tick,
)
from submissions.report.drawing.point_names import place_names
from suite.human_numbers import format_whole_digits

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 62, 454, 34, 202
Place: TypeAlias = tuple[float, float]
MARK_ROW: Final = 16
"""Distance between rows of the names of marks."""
LINE_STEP: Final = 6
"""Distance between places along a line where a name would meet it."""
"""The plot area, in SVG units: about a pixel on a desktop screen, two thirds of one on a phone."""
FONT_SIZE: Final = 12
LINE_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "5 2")
"""Line styles, cycled: colour alone excludes colour-blind readers."""
COLOUR_CLASSES: Final = 6
"""Classes s0 to s5 of the style sheet."""
NARROW_FONT_SIZE: Final = 16
"""Size of text on a narrow screen, by the style sheet."""
ERROR_BAR_CAP: Final = 4.0
"""Half the length of the lines that end an error bar."""
NARROW_LETTER_WIDTH: Final = 9.0
"""Mean width of a letter on a narrow screen, where the style sheet makes text larger."""
LEGEND_KEY_WIDTH: Final = 34
"""Width of a line sample in the legend, including the gap after the name."""
LEGEND_ROW_HEIGHT: Final = 20
BAND_OPACITIES: Final = (0.14, 0.04)
"""Shades of neighbouring bands: faint, so that text on them can be read."""
SHAPE_RADIUS: Final = 4.0
"""Half the size of a ring and of a cross."""
MARKED_RADIUS: Final = 6.5
"""Radius of the ring around a point that another line draws."""
MAX_DOTS: Final = 60
"""Maximum number of points in a line with individual markers."""


def draw_chart(chart: Chart, prefix: str = "") -> Markup:
    """Draw a chart; its title and description also convey its content. `prefix` makes its ids
    unique on the page.
    """
    rows = split_legend_rows(chart)
    above = 0
    if len(rows) > 1 or rows and not has_room_for_legend(chart, rows[0]):
        above = LEGEND_ROW_HEIGHT * len(rows)
    body = Markup("\n").join(draw_chart_elements(chart))
    if above:
        body = Markup('<g transform="translate(0 {})">\n{}</g>').format(above, body)
    names = Markup("\n").join(draw_legend(chart, rows, right=not above))
    return Markup(
        '<svg class="chart" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}"'
        ' font-size="{f}" font-family="system-ui, sans-serif" aria-labelledby="{id}-t'
        ' {id}-d"><title id="{id}-t">{title}</title><desc'
        ' id="{id}-d">{description}</desc>\n{body}\n{names}</svg>'
    ).format(
        w=WIDTH,
        h=HEIGHT + above,
        f=FONT_SIZE,
        id=prefix + chart.id,
        title=chart.title,
        description=chart.description,
        body=body,
        names=names,
    )


def draw_chart_elements(chart: Chart) -> Iterator[Markup]:
    """Yield the elements of a chart, from back to front."""
    indent = 0
    if any(line.bars for line in chart.lines):
        indent = 16
    across = choose_axis_scale(
        chart.x,
        [
            *(x for line in chart.lines for x, _ in line.points),
            *(end for line in chart.lines for ends in line.x_intervals for end in ends or ()),
        ]
        + [m.value for m in chart.marks if m.upright],
        LEFT + indent,
        RIGHT - indent,
    )
    up = choose_axis_scale(
        chart.y,
        [
            *(y for line in chart.lines for _, y in line.points),
            *(end for line in chart.lines for ends in line.y_intervals for end in ends or ()),
        ]
        + [m.value for m in chart.marks if not m.upright],
        BOTTOM,
        TOP,
        room=True,
    )
    yield from draw_bands(chart.bands, across)
    yield from draw_plot_area(chart, across, up)
    for number, line in enumerate(chart.lines):
        yield from draw_chart_line(line, number, across, up)
    taken: list[Place] = []
    yield from draw_reference_marks(chart, across, up, taken)
    yield from draw_point_names(chart, across, up, taken)


def draw_plot_area(chart: Chart, across: AxisScale, up: AxisScale) -> Iterator[Markup]:
    """Draw the plot area: lines, numbers, names."""
    for tick in up.choose_ticks():
        y = up.map_value(tick)
        yield draw_straight_line(LEFT, y, RIGHT, y, "grid", opacity=0.25)
        yield draw_text(LEFT - 8, y + 4, format_tick(tick), "end")
    for tick in across.choose_ticks():
        x = across.map_value(tick)
        yield draw_straight_line(x, BOTTOM, x, BOTTOM + 5, "axis", opacity=0.7)
        yield draw_text(x, BOTTOM + 19, format_tick(tick), "middle")
    yield draw_straight_line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis", opacity=0.7)
    yield draw_text((LEFT + RIGHT) / 2, HEIGHT - 8, format_axis_title(chart.x), "middle")
    yield draw_text(8, 16, format_axis_title(chart.y), "start")


def draw_bands(bands: Sequence[Band], across: AxisScale) -> Iterator[Markup]:
    """Shade every other range, and name those that have room for their name."""
    for number, band in enumerate(bands):
        left, right = across.map_value(band.low), across.map_value(band.high)
        yield Markup(
            '<rect class="grid" x="{:.1f}" y="{}" width="{:.1f}" height="{}" fill="currentColor"'
            ' fill-opacity="{}"/>'
        ).format(left, TOP, right - left, BOTTOM - TOP, BAND_OPACITIES[number % 2])
        if len(band.name) * NARROW_LETTER_WIDTH <= right - left:
            yield draw_text((left + right) / 2, TOP + 14, band.name, "middle")


def draw_chart_line(line: Line, number: int, across: AxisScale, up: AxisScale) -> Iterator[Markup]:
    """Draw one series."""
    places = [(across.map_value(x), up.map_value(y)) for x, y in line.points]
    if not places:
        return
    if line.bars:
        yield from (
            draw_straight_line(
                x, BOTTOM, x, y, f"s{number % COLOUR_CLASSES}", width=compute_bar_width(len(places))
            )
            for x, y in places
        )
        return
    name = f"s{number % COLOUR_CLASSES}"
    yield from draw_line_intervals(line, name, across, up)
    if line.loose:
        yield from draw_loose_points(line, name, places)
        return
    corners = list_line_corners(line, places)
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
    if line.filled:
        area = f"{path}L{places[-1][0]:.1f} {BOTTOM}L{places[0][0]:.1f} {BOTTOM}Z"
        yield Markup(
            '<path class="{}" d="{}" fill="currentColor" fill-opacity="0.14" stroke="none"/>'
        ).format(name, area)
    dashes = ""
    if dash := LINE_DASHES[number % len(LINE_DASHES)]:
        dashes = Markup(' stroke-dasharray="{}"').format(dash)
    yield Markup(
        '<path class="{}" d="{}" fill="none" stroke="currentColor" stroke-width="1.8"'
        ' stroke-linejoin="round"{}/>'
    ).format(name, path, dashes)
    if line.dots and len(places) <= MAX_DOTS:
        told = line.names or (line.name,) * len(places)
        for (x, y), (value_x, value_y), words in zip(places, line.points, told, strict=True):
            ring = line.shape is Shape.RING
            yield Markup(
                '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}" fill="{}"'
                "{}><title>{}: {}, {}</title></circle>"
            ).format(
                name,
                x,
                y,
                MARKED_RADIUS if ring else 3,
                "none" if ring else "currentColor",
                Markup(' stroke="currentColor" stroke-width="1.8"') if ring else "",
                words,
                *(format_whole_digits(each, 6) for each in (value_x, value_y)),
            )


def draw_loose_points(line: Line, name: str, places: Sequence[Place]) -> Iterator[Markup]:
    """Draw points that stand apart from a line; those with names tell them where they are pointed
    at.
    """
    if not line.names:
        yield from (draw_shape(line.shape, name, *at) for at in places)
        return
    for at, (x, y), words in zip(places, line.points, line.names, strict=True):
        yield Markup("<g><title>{}: {}, {}</title>{}</g>").format(
            words,
            *(format_whole_digits(each, 6) for each in (x, y)),
            draw_shape(line.shape, name, *at),
        )


def list_line_corners(line: Line, places: Sequence[Place]) -> list[Place]:
    """Return the places through which a line is drawn."""
    if line.steps:
        return list(iterate_step_corners(places))
    if line.holds:
        return list(iterate_held_corners(places))
    return list(places)


def draw_point_names(
    chart: Chart, across: AxisScale, up: AxisScale, taken: Sequence[Place]
) -> Iterator[Markup]:
    """Draw the names of points. One without room is left out: the table has it. `taken` is what the
    names of marks cover.
    """
    named: list[tuple[Place, str]] = []
    points: list[Place] = [*taken]
    drawn: list[Place] = []
    for line in chart.lines:
        places = [(across.map_value(x), up.map_value(y)) for x, y in line.points]
        named += zip(places, line.names, strict=False)
        points += places
        if not line.loose:
            drawn += iterate_line_places(list_line_corners(line, places))
        for ends in list_interval_ends(line, across, up):
            drawn += iterate_line_places(ends)
    for each in place_names(named, points, drawn, (LEFT, TOP, RIGHT, BOTTOM)):
        if each.has_leader:
            (x, y), (end_x, end_y) = each.point, each.nearest
            yield draw_straight_line(x, y, end_x, end_y, "axis", opacity=0.7)
        yield draw_text(each.x, each.y, each.words, each.anchor, "mark")


def draw_line_intervals(
    line: Line, name: str, across: AxisScale, up: AxisScale
) -> Iterator[Markup]:
    """Draw the error bars of a line's points, on either axis."""
    for begin, end in list_interval_ends(line, across, up):
        yield draw_error_bar(begin, end, name)


def list_interval_ends(line: Line, across: AxisScale, up: AxisScale) -> list[tuple[Place, Place]]:
    """Return where the intervals of a line's points begin and end."""
    found: list[tuple[Place, Place]] = []
    for (_, y), ends in zip(line.points, line.x_intervals, strict=False):
        if ends is not None:
            low, high = map(across.map_value, ends)
            found.append(((low, up.map_value(y)), (high, up.map_value(y))))
    for (x, _), ends in zip(line.points, line.y_intervals, strict=False):
        if ends is not None:
            low, high = map(up.map_value, ends)
            found.append(((across.map_value(x), low), (across.map_value(x), high)))
    return found


def draw_error_bar(
    begin: tuple[float, float], end: tuple[float, float], name: str, *, goes_on: bool = False
) -> Markup:
    """Draw an interval as a line with a short line across each end; it lies along an axis. One that
    goes on beyond its end has an arrow there.
    """
    (x1, y1), (x2, y2) = begin, end
    if y1 == y2:
        across, up = 0.0, ERROR_BAR_CAP
    else:
        across, up = ERROR_BAR_CAP, 0.0
    if goes_on:
        arrow = (
            f"M{x1:.1f} {y1 - up:.1f}L{x1:.1f} {y1 + up:.1f}M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
        )
        arrow += f"M{x2 - up:.1f} {y2 - up:.1f}L{x2:.1f} {y2:.1f}L{x2 - up:.1f} {y2 + up:.1f}"
        return draw_thin_path(name, arrow)
    path = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" + "".join(
        f"M{x - across:.1f} {y - up:.1f}L{x + across:.1f} {y + up:.1f}" for x, y in (begin, end)
    )
    return draw_thin_path(name, path)


def draw_thin_path(name: str, path: str) -> Markup:
    """Draw a thin line along a path."""
    return Markup(
        '<path class="{}" d="{}" fill="none" stroke="currentColor" stroke-width="1.4"/>'
    ).format(name, path)


def iterate_step_corners(
    places: Sequence[tuple[float, float]],
) -> Iterator[tuple[float, float]]:
    """Yield the corners of a step line, which keeps its height from the point before to each."""
    before = float(LEFT)
    for x, y in places:
        yield before, y
        yield x, y
        before = x


def iterate_held_corners(
    places: Sequence[tuple[float, float]],
) -> Iterator[tuple[float, float]]:
    """Yield the corners of a step line that keeps its height from each point to the next."""
    for number, (x, y) in enumerate(places):
        yield x, y
        yield (places[number + 1][0] if number + 1 < len(places) else float(RIGHT)), y


def draw_shape(shape: Shape, name: str, x: float, y: float) -> Markup:
    """Draw a point that stands apart from a line."""
    r = SHAPE_RADIUS
    match shape:
        case Shape.DOT:
            return Markup(
                '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="1.8" fill="currentColor"'
                ' fill-opacity="0.75"/>'
            ).format(name, x, y)
        case Shape.RING:
            return Markup(
                '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}" fill="none"'
                ' stroke="currentColor" stroke-width="1.8"/>'
            ).format(name, x, y, r)
        case Shape.CROSS:
            ends = (x - r, y - r, x + r, y + r, x - r, y + r, x + r, y - r)
            return Markup(
                '<path class="{}" d="M{:.1f} {:.1f}L{:.1f} {:.1f}M{:.1f} {:.1f}L{:.1f} {:.1f}"'
                ' fill="none" stroke="currentColor" stroke-width="2.2"/>'
            ).format(name, *ends)
        case Shape.DIAMOND:
            corners = (x, y - r - 1, x + r + 1, y, x, y + r + 1, x - r - 1, y)
            return Markup(
                '<path class="{}" d="M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z"'
                ' fill="currentColor"/>'
            ).format(name, *corners)


def compute_bar_width(count: int) -> float:
    """Return the width of a bar, with gaps between bars."""
    return max(1.5, min(22.0, 0.6 * (RIGHT - LEFT) / count))


def draw_reference_marks(
    chart: Chart, across: AxisScale, up: AxisScale, named: list[Place]
) -> Iterator[Markup]:
    """Draw the reference marks, then their names: those of vertical marks where no line and no
    other name is, those of horizontal ones at the left, clear of the legend. `named` gets places
    that the names cover.
    """
    ordered = sorted(chart.marks, key=lambda mark: mark.value)
    for mark in ordered:
        x, y = across.map_value(mark.value), up.map_value(mark.value)
        if mark.upright:
            yield draw_straight_line(x, TOP, x, BOTTOM, "mark", dash="4 3")
        else:
            yield draw_straight_line(LEFT, y, RIGHT, y, "mark", dash="4 3")
    corners = [
        [(across.map_value(x), up.map_value(y)) for x, y in line.points] for line in chart.lines
    ]
    taken = [place for line in corners for place in iterate_line_places(line)]
    for mark in (mark for mark in ordered if mark.upright):
        x = across.map_value(mark.value)
        room = len(mark.name) * NARROW_LETTER_WIDTH
        left, y = choose_mark_place(x, room, [*taken, *named])
        yield draw_text(x - 5 if left else x + 5, y, mark.name, "end" if left else "start", "mark")
        named += [(x + (-1 if left else 1) * room * part / 8, y - 4) for part in range(9)]
    for mark in ordered:
        if not mark.upright:
            y, room = up.map_value(mark.value) - 5, len(mark.name) * NARROW_LETTER_WIDTH
            yield draw_text(LEFT + 4, y, mark.name, "start", "mark")
            named += [(LEFT + 4 + room * part / 8, y - 4) for part in range(9)]


def iterate_line_places(corners: Sequence[Place]) -> Iterator[Place]:
    """Yield places along a line, close enough for a name to meet one of them."""
    for (x1, y1), (x2, y2) in pairwise(corners):
        steps = max(1, math.ceil(max(abs(x2 - x1), abs(y2 - y1)) / LINE_STEP))
        for step in range(steps + 1):
            yield x1 + (x2 - x1) * step / steps, y1 + (y2 - y1) * step / steps


def choose_mark_place(x: float, room: float, taken: Sequence[Place]) -> tuple[bool, float]:
    """Choose the side and the height of a mark's name: the first row where nothing is drawn, or
    where the least is.
    """
    wanted = x > (LEFT + RIGHT) / 2
    best: tuple[int, int, bool, float] | None = None
    for position, y in enumerate(range(TOP + 10, BOTTOM - 4, MARK_ROW)):
        for left in (wanted, not wanted):
            if left:
                begin, end = x - 5 - room, x - 5
            else:
                begin, end = x + 5, x + 5 + room
            if begin < LEFT or end > RIGHT:
                continue
            met = sum(begin - 3 <= at <= end + 3 and y - 14 <= up <= y + 5 for at, up in taken)
            found = (met, position, left is not wanted, y)
            if best is None or found < best:
                best = found
    if best is None:
        return wanted, TOP + 10
    return (wanted if not best[2] else not wanted), best[3]


def estimate_legend_width(line: Line) -> float:
    """Return the width of a legend entry: the line sample and its name."""
    return len(line.name) * NARROW_LETTER_WIDTH + LEGEND_KEY_WIDTH


def split_legend_rows(chart: Chart) -> list[list[int]]:
    """Distribute the lines of a chart over the rows of its legend; a single line needs none."""
    rows: list[list[int]] = []
    used = math.inf
    for number, line in enumerate(chart.lines if len(chart.lines) > 1 else ()):
        if used + estimate_legend_width(line) > RIGHT:
            rows.append([])
            used = 0.0
        rows[-1].append(number)
        used += estimate_legend_width(line)
    return rows


def has_room_for_legend(chart: Chart, row: Sequence[int]) -> bool:
    """Return whether a legend fits next to the name of the vertical axis."""
    return (len(format_axis_title(chart.y)) + 1) * NARROW_LETTER_WIDTH + sum(
        estimate_legend_width(chart.lines[number]) for number in row
    ) <= RIGHT


def draw_legend(chart: Chart, rows: Sequence[Sequence[int]], *, right: bool) -> Iterator[Markup]:
    """Draw the legend: at the top right, or in rows above the chart."""
    for position, row in enumerate(rows):
        x, y = 8.0, 12 + LEGEND_ROW_HEIGHT * position
        if right:
            x = RIGHT - sum(estimate_legend_width(chart.lines[number]) for number in row)
        for number in row:
            line = chart.lines[number]
            yield draw_legend_key(line, number, x, y)
            yield draw_text(x + 23, y + 4, line.name, "start")
            x += estimate_legend_width(line)


def draw_legend_key(line: Line, number: int, x: float, y: float) -> Markup:
    """Draw a sample of a line, or of the shape of its points."""
    name = f"s{number % COLOUR_CLASSES}"
    if line.loose and line.shape is not Shape.DOT:
        return draw_shape(line.shape, name, x + 9, y)
    dash = LINE_DASHES[number % len(LINE_DASHES)]
    return draw_straight_line(x, y, x + 18, y, name, dash=dash, width=2.2)


def draw_straight_line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    name: str,
    *,
    dash: str = "",
    opacity: float = 1.0,
    width: float = 1.0,
) -> Markup:
    """Draw a straight line."""
    more = Markup("")
    if dash:
        more += Markup(' stroke-dasharray="{}"').format(dash)
    if opacity < 1:
        more += Markup(' stroke-opacity="{}"').format(opacity)
    return Markup(
        '<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="currentColor"'
        ' stroke-width="{:g}"{}/>'
    ).format(name, x1, y1, x2, y2, width, more)


def draw_text(x: float, y: float, words: str, anchor: str, name: str = "ink") -> Markup:
    """Draw a text."""
    return Markup(
        '<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="currentColor">{}</text>'
    ).format(name, x, y, anchor, words)
