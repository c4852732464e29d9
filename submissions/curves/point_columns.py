"""The columns of a curve's points: each is named and read once, for scores, sites and pages."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from suite.columns import UNKNOWN_CELL, Column
from suite.human_numbers import (
    MIN_KNOWN_DIGITS,
    find_first_place,
    format_rounded_number,
    format_whole_digits,
)
from suite.measurement.intervals import Interval
from suite.result import ScoredPoint

REGION_NAMES: Final = {
    "low_latency": "low latency",
    "low_concurrency": "low",
    "med_concurrency": "medium",
    "high_concurrency": "high",
    "margin": "margin",
    "offline": "Offline",
}
"""Region -> its name in tables and figures."""
FIGURE_DIGITS: Final = 5


def format_figure(value: float | None, unit: str = "") -> str:
    """Format a figure with five significant digits, and all digits of its whole part."""
    if value is None:
        return UNKNOWN_CELL
    return f"{format_whole_digits(value, FIGURE_DIGITS)} {unit}".rstrip()


def format_known_figure(value: float | None, interval: Interval | None) -> str:
    """Format a figure with half of its 95 % interval, if it has one: to two digits of that half."""
    if value is None or interval is None or not interval.high > interval.low:
        return format_figure(value)
    half = (interval.high - interval.low) / 2
    decimals = MIN_KNOWN_DIGITS - 1 - find_first_place(half)
    told, told_half = (format_rounded_number(each, decimals) for each in (value, half))
    return f"{told} \u00b1{told_half}"


def format_region(point: ScoredPoint) -> str:
    """Format the region of a point, and whether it is elected as the Offline result."""
    name = REGION_NAMES.get(point.region or "", UNKNOWN_CELL)
    if point.offline and point.is_fixed:
        return f"{name}, Offline"
    return name


def build_point_figure_column(name: str, title: str, unit: str = "") -> Column[ScoredPoint]:
    """Return the column of a figure, which is told with its interval and a unit."""
    read = attrgetter(name)

    def tell_figure(point: ScoredPoint) -> str:
        told = format_known_figure(read(point), point.intervals.get(name))
        if told == UNKNOWN_CELL:
            return told
        return f"{told} {unit}".rstrip()

    return Column(name, read, title=title, tell=tell_figure, numeric=True, optional=True, kind=Any)


def build_point_column(
    name: str, title: str = "", tell: Callable[[ScoredPoint], str] | None = None
) -> Column[ScoredPoint]:
    """Return the column of another field."""
    return Column(name, attrgetter(name), title=title, tell=tell, optional=True, kind=Any)


POINT_COLUMNS: Final[Mapping[str, Column[ScoredPoint]]] = {
    each.name: each
    for each in (
        build_point_column("path"),
        Column(
            "concurrency",
            attrgetter("concurrency"),
            title="in flight",
            numeric=True,
            optional=True,
            kind=Any,
        ),
        build_point_column("region", tell=format_region),
        build_point_column("offline"),
        build_point_figure_column("system_tps", "tokens/s"),
        build_point_figure_column("tps_per_user", "per user"),
        build_point_figure_column("ttft_p90_ms", "TTFT P90", "ms"),
        build_point_figure_column("tps_per_kw", "per kW"),
        build_point_column("basis", tell=lambda point: point.basis.replace("_", " ")),
        build_point_column("declared_basis"),
        build_point_column("compliant", "ok"),
        build_point_column("failed_rules"),
    )
}
"""Name -> column."""
