"""How a front of points is drawn, wherever throughput is drawn against the time of one user."""

from collections.abc import Sequence

from submissions.report.document import Line, Shape


def build_front_line(name: str, points: Sequence[tuple[float, float]], *, rising: bool) -> Line:
    """Draw the points that no other dominates as a step line, without interpolation. `rising` means
    that less is better on the x axis, as for a latency: the line holds from each point on, around
    points that other lines draw; else, as for a speed, it holds up to each point.
    """
    return Line(
        name=name,
        points=tuple(points),
        dots=True,
        steps=not rising,
        holds=rising,
        shape=Shape.RING if rising else Shape.DOT,
    )


def build_dominated_line(name: str, points: Sequence[tuple[float, float]]) -> Line:
    """Draw points beside the front as rings."""
    return Line(name=name, points=tuple(points), loose=True, shape=Shape.RING)
