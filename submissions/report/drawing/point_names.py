"""Places the names of points in a chart: beside their points where there is room, else farther away
with a thin line to the point, and never over another name or another point.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Place: TypeAlias = tuple[float, float]

LETTER_WIDTH: Final = 9.0
"""Mean width of a letter on a narrow screen, where the style sheet makes text larger."""
MAX_NAME_LETTERS: Final = 26
"""Of a name in a chart: more than half of the chart's width on a narrow screen."""
ASCENT, DESCENT = 13.0, 4.0
"""Height of letters above and below their line on a narrow screen."""
ROW_HEIGHT: Final = 17.0
POINT_GAP: Final = 9.0
"""Distance from a point to a name beside it."""
MAX_ROWS: Final = 8
"""Rows above and below a point in which its name may be."""
LEADER_FROM: Final = 14.0
"""Distance of a name from its point from which on a line joins them."""
POINT_RADIUS: Final = 5.0
"""Half the size of a point that no name may cover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedName:
    """Where a name is drawn."""

    words: str
    point: Place
    x: float
    y: float
    """Of the line on which the letters stand."""
    anchor: str
    """start, middle or end: what of the name is at x."""

    @property
    def left(self) -> float:
        """Return the left end of the name at its widest."""
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return self.x - share * len(self.words) * LETTER_WIDTH

    @property
    def right(self) -> float:
        """Return the right end of the name at its widest."""
        return self.left + len(self.words) * LETTER_WIDTH

    @property
    def nearest(self) -> Place:
        """Return the place of the name that its line to the point reaches: what is at `x`."""
        below = self.y - ASCENT / 2 > self.point[1]
        return self.x, self.y - ASCENT + 1 if below else self.y + DESCENT

    @property
    def has_leader(self) -> bool:
        """Return whether a line joins the name and its point."""
        return abs(self.y - DESCENT - self.point[1]) > LEADER_FROM

    def has_place(self, place: Place, margin: float) -> bool:
        """Return whether a place is covered, or closer than `margin`."""
        x, y = place
        return (
            self.left - margin <= x <= self.right + margin
            and self.y - ASCENT - margin <= y <= self.y + DESCENT + margin
        )

    def has_overlap(self, other: "PlacedName") -> bool:
        """Return whether two names cover each other."""
        return (
            self.left <= other.right
            and other.left <= self.right
            and abs(self.y - other.y) < ASCENT + DESCENT
        )


def place_names(
    named: Sequence[tuple[Place, str]],
    points: Sequence[Place],
    lines: Sequence[Place],
    area: tuple[float, float, float, float],
) -> Iterator[PlacedName]:
    """Yield the names that have room, the first ones first.

    Args:
        named: points with their names.
        points: all points, and what other names cover; no name covers any.
        lines: places along lines, which names avoid where they can.
        area: left, top, right and bottom of where names may be.
    """
    placed: list[PlacedName] = []
    for point, name in named:
        best, cost = None, math.inf
        others = [each for each in points if each != point]
        for position, found in enumerate(iterate_name_places(point, shorten_point_name(name))):
            if not is_inside(found, area) or any(map(found.has_overlap, placed)):
                continue
            if any(found.has_place(each, POINT_RADIUS) for each in others):
                continue
            met = position + 2 * sum(found.has_place(each, 0.0) for each in lines)
            if met < cost:
                best, cost = found, met
        if best is not None:
            placed.append(best)
            yield best


def shorten_point_name(name: str) -> str:
    """Return a name without its middle if it is too long: both ends tell systems apart."""
    if len(name) <= MAX_NAME_LETTERS:
        return name
    half = MAX_NAME_LETTERS // 2
    return f"{name[: half - 1]}\u2026{name[-half:]}"


def is_inside(found: PlacedName, area: tuple[float, float, float, float]) -> bool:
    """Return whether a name is within the area."""
    left, top, right, bottom = area
    return (
        left <= found.left
        and found.right <= right
        and top <= found.y - ASCENT
        and found.y + DESCENT <= bottom
    )


def iterate_name_places(point: Place, words: str) -> Iterator[PlacedName]:
    """Yield the places of a name, the best ones first: beside its point, above, below, then in rows
    farther away.
    """
    x, y = point
    middle = y + DESCENT
    sides = ((x + POINT_GAP, "start"), (x - POINT_GAP, "end"))
    for side, anchor in sides:
        yield PlacedName(words=words, point=point, x=side, y=middle, anchor=anchor)
    for row in range(1, MAX_ROWS + 1):
        for height in (middle - ROW_HEIGHT * row, middle + ROW_HEIGHT * row):
            yield PlacedName(words=words, point=point, x=x, y=height, anchor="middle")
            for side, anchor in sides:
                yield PlacedName(words=words, point=point, x=side, y=height, anchor=anchor)
