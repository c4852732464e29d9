"""The columns of throughput against latency: each is named and read once, for programs and for
people.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from submissions.compare.verdicts import SpeedVerdict
from submissions.tradeoff.figures import TradeoffPoint
from suite.columns import UNKNOWN_CELL, Column, Table
from suite.human_numbers import format_whole_digits


def format_point_value(point: TradeoffPoint) -> str:
    """Format the throughput of a point."""
    return f"{format_whole_digits(point.value)} {point.value_unit}"


def format_point_interval(point: TradeoffPoint) -> str:
    """Format the interval of a point's throughput; a dash if it has none."""
    if point.low is None or point.high is None:
        return UNKNOWN_CELL
    return f"{format_whole_digits(point.low)} to {format_whole_digits(point.high)}"


def describe_front_place(point: TradeoffPoint) -> str:
    """Say whether a point is on the front, or not separable from it."""
    if point.front:
        return "yes"
    if point.dominated:
        return "no"
    return SpeedVerdict.NOT_SEPARABLE.value


def build_tradeoff_column(
    name: str, title: str = "", *, numeric: bool = False
) -> Column[TradeoffPoint]:
    """Return the column of a field, which is a dash where it is unknown or empty."""
    read = attrgetter(name)

    def tell_field(point: TradeoffPoint) -> str:
        value = read(point)
        if value in (None, ""):
            return UNKNOWN_CELL
        return str(value)

    return Column(
        name, read, title=title, tell=tell_field, numeric=numeric, optional=True, kind=Any
    )


TRADEOFF_COLUMNS: Final[Mapping[str, Column[TradeoffPoint]]] = {
    each.name: each
    for each in (
        *map(build_tradeoff_column, ("workload", "kind", "source", "system", "machine", "engine")),
        build_tradeoff_column("precision"),
        build_tradeoff_column("batch", numeric=True),
        build_tradeoff_column("in_flight", "in flight", numeric=True),
        build_tradeoff_column("latency"),
        Column(
            "latency_ms",
            attrgetter("latency_ms"),
            title="latency, ms",
            tell=lambda point: format_whole_digits(point.latency_ms),
            numeric=True,
        ),
        *map(build_tradeoff_column, ("rate", "rate_unit", "basis")),
        Column(
            "value",
            attrgetter("value"),
            title="throughput",
            tell=format_point_value,
            numeric=True,
        ),
        build_tradeoff_column("value_unit"),
        Column(
            "low",
            attrgetter("low"),
            title="95 % interval",
            tell=format_point_interval,
            numeric=True,
        ),
        build_tradeoff_column("high"),
        Column("front", attrgetter("front"), title="on the front", tell=describe_front_place),
        build_tradeoff_column("dominated"),
    )
}
"""Name -> column, in the order of the CSV."""
EXPORTED_TABLE: Final[Table[TradeoffPoint]] = Table(columns=tuple(TRADEOFF_COLUMNS.values()))
SHOWN_TABLE: Final[Table[TradeoffPoint]] = Table(
    columns=tuple(
        TRADEOFF_COLUMNS[name]
        for name in (
            *("system", "engine", "precision", "batch", "in_flight"),
            *("latency_ms", "value", "low", "front"),
        )
    )
)
"""The points of one figure by rising latency, without columns that are empty."""
