"""Draws the values of one table with their intervals."""

from typing import Final

from markupsafe import Markup

from submissions.publish.groups import GroupedRows, is_group_letter
from submissions.report.document import Axis, encode_invisible_characters
from submissions.report.drawing.axis_scale import AxisScale, choose_axis_scale, format_tick
from submissions.report.drawing.card import cut_text_inside
from submissions.report.drawing.svg import FONT_SIZE, draw_straight_line, draw_text
from suite.units import NS_PER_MS

FIGURE_WIDTH_PX: Final = 720
LEFT, RIGHT = 230, 704
ROW_PX: Final = 24
MAX_DRAWN_ROWS: Final = 40
"""Maximum number of rows drawn; the table contains all rows."""
MIN_RATIO_FOR_LOG_AXIS: Final = 20.0
"""Ratio of the largest to the smallest value above which the axis is logarithmic: on a linear axis
most dots would overlap.
"""
DRAWN_NAME_PX: Final = 196
"""Room of a system's name left of its letter; a longer one keeps its end, with engine and
precision.
"""


def draw_intervals_figure(table: GroupedRows, id: str) -> Markup:
    """Draw the best rows: a dot for the value, a line for the interval, and the group's letter."""
    rows = [row for row in table.rows if row.value is not None][:MAX_DRAWN_ROWS]
    factor, unit = (NS_PER_MS, "ms") if rows[0].unit == "ns" else (1.0, rows[0].unit)
    values = [
        each / factor for row in rows for each in (row.value, row.low, row.high) if each is not None
    ]
    far = min(values) > 0 and max(values) > MIN_RATIO_FOR_LOG_AXIS * min(values)
    across = choose_axis_scale(
        Axis(name="value", unit=unit, log=far), values if far else [0.0, *values], LEFT, RIGHT
    )
    height = ROW_PX * len(rows) + 44
    body = Markup("").join(
        [
            *draw_value_axis(across, height),
            *(draw_interval_row(table, position, across, factor) for position in range(len(rows))),
        ]
    )
    title = (
        f"{len(rows)} results with their intervals, in"
        f" {unit}{', on a logarithmic axis' if far else ''}"
    )
    return Markup(
        '<svg class="chart wide" role="img" aria-labelledby="{id}" viewBox="0 0 {w} {h}"'
        ' width="{w}" height="{h}" font-size="12"><title'
        ' id="{id}">{title}</title>{body}{name}</svg>'
    ).format(
        id=id,
        w=FIGURE_WIDTH_PX,
        h=height,
        title=title,
        body=body,
        name=draw_text((LEFT + RIGHT) / 2, height - 4, unit, "middle"),
    )


def draw_value_axis(across: AxisScale, height: int) -> list[Markup]:
    """Draw the axis."""
    drawn = []
    for tick in across.choose_ticks():
        x = across.map_value(tick)
        drawn += [
            draw_straight_line(x, 6, x, height - 38, "grid", opacity=0.25),
            draw_text(x, height - 22, format_tick(tick), "middle"),
        ]
    return drawn


def draw_interval_row(
    table: GroupedRows, position: int, across: AxisScale, factor: float
) -> Markup:
    """Draw one row."""
    row, letter, y = table.rows[position], table.letters[position], 18 + ROW_PX * position
    name = cut_text_inside(
        encode_invisible_characters(table.names[position]), FONT_SIZE, DRAWN_NAME_PX
    )
    parts = [draw_text(LEFT - 30, y + 4, name, "end")]
    if is_group_letter(letter):
        parts.append(draw_text(LEFT - 10, y + 4, letter, "end", "mark"))
    if row.low is not None and row.high is not None:
        parts.append(
            draw_straight_line(
                across.map_value(row.low / factor),
                y,
                across.map_value(row.high / factor),
                y,
                "s0",
                width=3,
            )
        )
    x = across.map_value((row.value or 0.0) / factor)
    parts.append(
        Markup('<circle class="s0" cx="{:.1f}" cy="{:.1f}" r="4.5" fill="currentColor"/>').format(
            x, y
        )
    )
    return Markup("").join(parts)
