"""Draws the values of one table with their intervals."""

from typing import Final

from markupsafe import Markup

from submissions.publish.groups import Grouped
from submissions.report.document import Axis, visible
from submissions.report.drawing.svg import Scale, number, scale, straight, text
from submissions.tables import NS_PER_MS

WIDTH: Final = 720
LEFT, RIGHT = 230, 704
ROW_PX: Final = 24
MOST: Final = 40
"""Maximum number of rows drawn; the table has all of them."""
FAR: Final = 20.0
"""Ratio of the largest to the smallest value from which the axis is logarithmic: on a linear one
most dots would lie on one another.
"""
NAME: Final = 26
"""Maximum length of a system's name in the figure."""


def intervals(table: Grouped, id: str) -> Markup:
    """Draw the best rows: a dot for the value, a line for the interval, the group's letter beside
    it.
    """
    rows = [row for row in table.rows if row.value is not None][:MOST]
    factor, unit = (NS_PER_MS, "ms") if rows[0].unit == "ns" else (1.0, rows[0].unit)
    values = [
        each / factor for row in rows for each in (row.value, row.low, row.high) if each is not None
    ]
    far = min(values) > 0 and max(values) > FAR * min(values)
    across = scale(
        Axis(name="value", unit=unit, log=far), values if far else [0.0, *values], LEFT, RIGHT
    )
    height = ROW_PX * len(rows) + 44
    body = Markup("").join(
        [
            *ticks(across, height),
            *(drawn(table, place, across, factor) for place in range(len(rows))),
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
        w=WIDTH,
        h=height,
        title=title,
        body=body,
        name=text((LEFT + RIGHT) / 2, height - 4, unit, "middle"),
    )


def ticks(across: Scale, height: int) -> list[Markup]:
    """Draw the axis."""
    drawn = []
    for tick in across.ticks():
        x = across.at(tick)
        drawn += [
            straight(x, 6, x, height - 38, "grid", opacity=0.25),
            text(x, height - 22, number(tick), "middle"),
        ]
    return drawn


def drawn(table: Grouped, place: int, across: Scale, factor: float) -> Markup:
    """Draw one row."""
    row, letter, y = table.rows[place], table.letters[place], 18 + ROW_PX * place
    name = visible(row.system if len(row.system) <= NAME else f"{row.system[: NAME - 1]}\u2026")
    parts = [text(LEFT - 30, y + 4, name, "end"), text(LEFT - 10, y + 4, letter, "end", "mark")]
    if row.low is not None and row.high is not None:
        parts.append(
            straight(across.at(row.low / factor), y, across.at(row.high / factor), y, "s0", width=3)
        )
    x = across.at((row.value or 0.0) / factor)
    parts.append(
        Markup('<circle class="s0" cx="{:.1f}" cy="{:.1f}" r="4.5" fill="currentColor"/>').format(
            x, y
        )
    )
    return Markup("").join(parts)
