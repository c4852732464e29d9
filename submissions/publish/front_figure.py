"""Draws the best values of one table for the front page: narrow enough for a telephone, with each
system's name above its value.
"""

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from submissions.publish.groups import GroupedRows, is_group_letter
from submissions.publish.matrix import format_row_machine
from submissions.report.document import Axis, encode_invisible_characters
from submissions.report.drawing.axis_scale import AxisScale, choose_axis_scale, format_tick
from submissions.report.drawing.bars import LONGEST_INTERVAL
from submissions.report.drawing.card import cut_text_inside
from submissions.report.drawing.svg import FONT_SIZE, draw_straight_line, draw_text
from submissions.result_columns import RESULT_COLUMNS
from suite.result import Result
from suite.units import NS_PER_MS

WIDTH_PX: Final = 340
LEFT, RIGHT = 8, 322
ROW_PX: Final = 40
AXIS_PX: Final = 36
MAX_FRONT_PAGE_ROWS: Final = 10
"""Rows at most: a front page has several figures of each workload, and its boards show all."""
FRONT_NAME_PX: Final = 240
"""Room of a name beside its value; the middle of a longer one is left out, since engine and
precision are at its end.
"""


def draw_front_figure(table: GroupedRows, id: str) -> Markup:
    """Draw the best rows: a dot for the value, a line for the interval, and the group's letter."""
    drawn = [
        (row, letter, name)
        for row, letter, name in zip(table.rows, table.letters, table.names, strict=True)
        if row.value is not None
    ][:MAX_FRONT_PAGE_ROWS]
    factor, unit = get_drawn_unit(drawn[0][0])
    across = scale_drawn_values([row for row, *_ in drawn], factor, unit)
    height = ROW_PX * len(drawn) + AXIS_PX
    parts = [
        *draw_front_axis(across, height),
        *(
            part
            for place, (row, letter, name) in enumerate(drawn)
            for part in draw_front_row(row, letter, name, ROW_PX * place, across, factor)
        ),
        draw_text((LEFT + RIGHT) / 2, height - 3, unit, "middle"),
    ]
    return Markup(
        '<svg class="chart slim" role="img" aria-labelledby="{id}" viewBox="0 0 {w} {h}"'
        ' width="{w}" height="{h}" font-size="12"><title id="{id}">{title}</title>{body}</svg>'
    ).format(
        id=id,
        w=WIDTH_PX,
        h=height,
        title=f"{len(drawn)} results with their intervals, in {unit}",
        body=Markup("").join(parts),
    )


def get_drawn_unit(row: Result) -> tuple[float, str]:
    """Return what values are divided by, and the unit that they then have."""
    if row.unit == "ns":
        return (NS_PER_MS, "ms")
    return (1.0, row.unit)


def scale_drawn_values(rows: list[Result], factor: float, unit: str) -> AxisScale:
    """Choose an axis from 0 that holds all values, and intervals up to twice the largest value:
    longer ones end at the frame.
    """
    most = LONGEST_INTERVAL * max(row.value or 0.0 for row in rows)
    ends = [
        min(each, most)
        for row in rows
        for each in (row.value, row.low, row.high)
        if each is not None
    ]
    values = [0.0, *(end / factor for end in ends)]
    return choose_axis_scale(Axis(name="value", unit=unit), values, LEFT, RIGHT)


def draw_front_axis(across: AxisScale, height: int) -> Iterator[Markup]:
    """Draw the values of the axis, with a line through all rows for each."""
    for tick in across.choose_ticks():
        x = across.map_value(tick)
        yield draw_straight_line(x, 4, x, height - AXIS_PX, "grid", opacity=0.25)
        yield draw_text(x, height - 20, format_tick(tick), "middle")


def draw_front_row(
    row: Result, letter: str, name: str, top: int, across: AxisScale, factor: float
) -> Iterator[Markup]:
    """Draw one row: name, value and letter above the dot and its interval."""
    told = RESULT_COLUMNS["value"].format_cell(row).partition(" ")[0]
    marked = f"{told}  {letter}" if is_group_letter(letter) else told
    yield draw_text(LEFT, top + 15, shorten_name(name), "start")
    yield draw_text(RIGHT, top + 15, marked, "end", "mark")
    y = top + 27
    if row.low is not None and row.high is not None:
        low, high = (across.map_value(end / factor) for end in (row.low, row.high))
        yield draw_straight_line(low, y, high, y, "s0", width=3)
    yield Markup(
        '<circle class="s0" cx="{:.1f}" cy="{}" r="4.5" fill="currentColor"><title>{}</title>'
        "</circle>"
    ).format(
        across.map_value((row.value or 0.0) / factor),
        y,
        encode_invisible_characters(f"{row.org}, {format_row_machine(row)}"),
    )


def shorten_name(name: str) -> str:
    """Return a name that fits beside its value, without letters that nobody would see."""
    return cut_text_inside(encode_invisible_characters(name), FONT_SIZE, FRONT_NAME_PX)
