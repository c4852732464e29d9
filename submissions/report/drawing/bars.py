"""Draws values beside one another as bars from 0, with their intervals and what is known of their
differences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from os.path import commonprefix
from typing import Final

from markupsafe import Markup

from submissions.report.document import Axis, Bar, BarChart, Tone
from submissions.report.drawing.axis_scale import (
    AxisScale,
    choose_axis_scale,
    format_axis_title,
    format_tick,
)
from submissions.report.drawing.card import cut_text, cut_text_inside, measure_text
from submissions.report.drawing.svg import (
    FONT_SIZE,
    NARROW_FONT_SIZE,
    WIDTH,
    draw_error_bar,
    draw_straight_line,
    draw_text,
)

BAR_LEFT, BAR_RIGHT = 8, WIDTH - 12
BAR_TOP: Final = 8
BAR_ROW: Final = 84
"""Height of a bar with its name above and two lines below."""
BAR_THICKNESS: Final = 14
AXIS_ROOM: Final = 46
LONGEST_INTERVAL: Final = 2.0
"""How many times the longest bar an interval is drawn; longer ones end in an arrow, so that the
bars stay readable.
"""
EQUAL_LETTERS: Final = 8
"""Letters that stay at either end of what the names of all bars share."""


def draw_bar_chart(chart: BarChart, prefix: str = "") -> Markup:
    """Draw a chart of bars; `prefix` makes its ids unique on the page."""
    height = BAR_TOP + BAR_ROW * len(chart.bars) + AXIS_ROOM
    longest = max((bar.value for bar in chart.bars if bar.value is not None), default=0.0)
    ends = [
        min(each, LONGEST_INTERVAL * longest)
        for bar in chart.bars
        for each in (bar.value, bar.high)
        if each is not None
    ]
    across = choose_axis_scale(
        Axis(name=chart.axis.name, unit=chart.axis.unit, low=0.0), ends, BAR_LEFT, BAR_RIGHT
    )
    body = [*draw_bar_axis(chart, across, height)]
    names = shorten_names_apart([bar.name for bar in chart.bars], NARROW_FONT_SIZE, WIDTH)
    for number, (bar, name) in enumerate(zip(chart.bars, names, strict=True)):
        body += draw_bar_row(replace(bar, name=name), BAR_TOP + BAR_ROW * number, across)
    return Markup(
        '<svg class="chart" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}"'
        ' font-size="{f}" font-family="system-ui, sans-serif" aria-labelledby="{id}-t {id}-d">'
        '<title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>\n{body}</svg>'
    ).format(
        w=WIDTH,
        h=height,
        f=FONT_SIZE,
        id=prefix + chart.id,
        title=chart.title,
        description=chart.description,
        body=Markup("\n").join(body),
    )


def shorten_names_apart(names: Sequence[str], size: float, room: float) -> list[str]:
    """Shorten names that are wider than their room where all of them are equal, at their beginnings
    and ends, so that what tells them apart stays.
    """
    if all(measure_text(name, size) <= room for name in names) or len(set(names)) < 2:
        return [cut_text_inside(name, size, room) for name in names]
    head, tail = len(commonprefix(names)), len(commonprefix([name[::-1] for name in names]))
    tail = min(tail, min(map(len, names)) - head)
    return [
        cut_text_inside(
            cut_equal_part(name[:head])
            + name[head : len(name) - tail]
            + cut_equal_part(name[len(name) - tail :]),
            size,
            room,
        )
        for name in names
    ]


def cut_equal_part(text: str) -> str:
    """Shorten what all names share to some letters at both of its ends."""
    if len(text) <= 2 * EQUAL_LETTERS + 1:
        return text
    return f"{text[:EQUAL_LETTERS]}\u2026{text[-EQUAL_LETTERS:]}"


def draw_bar_axis(chart: BarChart, across: AxisScale, height: int) -> Iterator[Markup]:
    """Draw lines and numbers of the axis, and its name at the bottom."""
    bottom = height - AXIS_ROOM
    for tick in across.choose_ticks():
        x = across.map_value(tick)
        yield draw_straight_line(x, BAR_TOP, x, bottom, "grid", opacity=0.25)
        anchor = "middle"
        if x < BAR_LEFT + FONT_SIZE:
            anchor = "start"
        if x > BAR_RIGHT - FONT_SIZE:
            anchor = "end"
        yield draw_text(x, bottom + 16, format_tick(tick), anchor)
    yield draw_text(WIDTH / 2, height - 8, format_axis_title(chart.axis), "middle")


def draw_bar_row(bar: Bar, top: int, across: AxisScale) -> Iterator[Markup]:
    """Draw one bar with its interval; without a value only what is written beside it."""
    colour = "mark"
    if bar.tone is Tone.BAD:
        colour = "bad"
    yield draw_text(BAR_LEFT, top + 15, bar.name, "start", "mark")
    middle = top + 21 + BAR_THICKNESS / 2
    if bar.value is not None:
        x = across.map_value(bar.value)
        yield Markup(
            '<rect class="s0" x="{}" y="{:.1f}" width="{:.1f}" height="{}" rx="2"'
            ' fill="currentColor" fill-opacity="0.55"/>'
        ).format(BAR_LEFT, middle - BAR_THICKNESS / 2, x - BAR_LEFT, BAR_THICKNESS)
        if bar.low is not None and bar.high is not None:
            ends = across.map_value(bar.low), across.map_value(bar.high)
            yield draw_error_bar(
                (ends[0], middle), (ends[1], middle), "mark", goes_on=bar.high > across.high
            )
    lines = [(text, name) for text, name in ((bar.told, "ink"), (bar.verdict, colour)) if text]
    for number, (text, tint) in enumerate(lines):
        yield draw_text(
            BAR_LEFT,
            top + 51 + 18 * number,
            cut_text(text, NARROW_FONT_SIZE * 0.9, WIDTH),
            "start",
            tint,
        )
