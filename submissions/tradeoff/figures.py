"""Throughput against latency as data: the points of each figure, divided by what was asked for,
with the Pareto front.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from submissions.compare.per_unit import FigureBasis, FigureRequest
from submissions.compare.watts import (
    EnergyKind,
    choose_common_energy_kind,
    group_widest_energies,
)
from submissions.tradeoff.points import MeasuredPoint
from suite.units import S_PER_HOUR

PROVISIONED_WATTS: Final = "provisioned power of the whole system"
SYSTEM_BASIS: Final = "system"
BROKEN_REASON: Final = "not compliant: not drawn"
NO_TRADEOFF_POINTS: Final = (
    "throughput against latency needs a sweep, or several systems with results of Offline and"
    " SingleStream or with curves"
)
MISSING_DIVISORS: Final = {
    FigureBasis.ACCELERATOR: "no accelerators, or their number is unknown",
    FigureBasis.WATT: "no power of the same kind was measured",
    FigureBasis.DOLLAR: "no price fits the system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffPoint:
    """One point of a figure."""

    workload: str
    kind: str
    """Rules, profile and division, or data: what points of one figure share."""
    source: str
    system: str
    machine: str
    engine: str
    precision: str
    batch: int | None
    """Samples per query of a sweep's row."""
    in_flight: int | None
    """Requests in flight of a curve's point."""
    latency: str
    latency_ms: float
    rate: float
    rate_unit: str
    basis: str
    """What the rate is divided by: system (by nothing), accelerator, watt, dollar."""
    value: float
    value_unit: str
    low: float | None
    high: float | None
    """Upper end of the value's 95 % interval; None if there is none."""
    front: bool
    """Whether no other point is both as fast and as quick, and better in one of them."""
    dominated: bool = False
    """Whether a point that is as quick is faster beyond the intervals of both. One that is neither
    this nor on the front is not separable from the front.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Tradeoff:
    """One figure of throughput against latency."""

    workload: str
    kind: str
    latency: str
    unit: str
    basis: str
    inputs: str
    """Where the divisors come from; empty without any."""
    points: tuple[TradeoffPoint, ...]
    """By rising latency."""
    left_out: tuple[str, ...] = ()
    """Points that are not drawn, and why."""


def build_tradeoffs(
    points: Sequence[MeasuredPoint], request: FigureRequest | None = None
) -> list[Tradeoff]:
    """Build a figure for each group of points that measured the same with the same latency."""
    return [build_group_tradeoff(group, request) for group in group_measured_points(points)]


def build_compared_tradeoffs(
    points: Sequence[MeasuredPoint], request: FigureRequest | None
) -> list[Tradeoff]:
    """Build the figures of what more than one system measured, also where fewer can be drawn: the
    figure then says why.
    """
    return [
        build_group_tradeoff(group, request)
        for group in group_measured_points(points)
        if len({(point.source, point.system) for point in group}) > 1
    ]


def group_measured_points(points: Sequence[MeasuredPoint]) -> list[list[MeasuredPoint]]:
    """Group the points that share a figure."""
    groups: dict[tuple[object, ...], list[MeasuredPoint]] = {}
    for point in points:
        groups.setdefault((point.group, point.rate_unit, point.latency), []).append(point)
    return [*groups.values()]


def explain_missing_points(found: Sequence[Tradeoff]) -> str:
    """Say why no figure has a point; empty if one has."""
    if any(each.points for each in found):
        return ""
    return "; ".join(reason for each in found for reason in each.left_out) or NO_TRADEOFF_POINTS


def build_group_tradeoff(
    points: Sequence[MeasuredPoint], request: FigureRequest | None
) -> Tradeoff:
    """Build the figure of one group."""
    kept = [each for each in points if each.compliant]
    kind = choose_group_power(kept, request)
    drawn: list[TradeoffPoint] = []
    reasons: dict[str, list[str]] = {}
    for point in points:
        divisor = find_point_divisor(point, request, kind) if point.compliant else None
        if divisor:
            drawn.append(build_tradeoff_point(point, request, divisor))
        elif request and point.compliant:
            reasons.setdefault(MISSING_DIVISORS[request.basis], []).append(point.system)
        else:
            reasons.setdefault(BROKEN_REASON, []).append(point.system)
    ordered = sorted(drawn, key=lambda each: (each.latency_ms, -each.value))
    first = points[0]
    return Tradeoff(
        workload=first.group[0],
        kind=format_point_kind(first),
        latency=first.latency,
        unit=format_value_unit(first, request),
        basis=request.basis if request else SYSTEM_BASIS,
        inputs=describe_divisors(request, kind),
        points=tuple(mark_pareto_front(ordered)),
        left_out=tuple(describe_left_out(reason, names) for reason, names in reasons.items()),
    )


def build_tradeoff_point(
    point: MeasuredPoint, request: FigureRequest | None, divisor: float
) -> TradeoffPoint:
    """Build a point of a figure from its measurement."""
    return TradeoffPoint(
        workload=point.group[0],
        kind=format_point_kind(point),
        source=point.source,
        system=point.system,
        machine=point.hardware,
        engine=point.engine,
        precision=point.precision,
        batch=point.batch,
        in_flight=point.in_flight,
        latency=point.latency,
        latency_ms=point.latency_ms,
        rate=point.rate,
        rate_unit=point.rate_unit,
        basis=request.basis if request else SYSTEM_BASIS,
        value=point.rate / divisor,
        value_unit=format_value_unit(point, request),
        low=None if point.low is None else point.low / divisor,
        high=None if point.high is None else point.high / divisor,
        front=False,
    )


def mark_pareto_front(ordered: Sequence[TradeoffPoint]) -> Iterator[TradeoffPoint]:
    """Yield points by rising latency, those marked that no other one dominates, and those that one
    dominates beyond the intervals of both.
    """
    best, at = float("-inf"), float("-inf")
    for point in ordered:
        front = point.value > best or (point.value == best and point.latency_ms == at)
        if front:
            best, at = point.value, point.latency_ms
        beaten = not front and any(is_clearly_slower(point, other) for other in ordered)
        yield replace(point, front=front, dominated=beaten)


def is_clearly_slower(point: TradeoffPoint, other: TradeoffPoint) -> bool:
    """Return whether another point is as quick, and faster beyond the intervals of both; a pair
    without intervals is taken by its values.
    """
    if other.latency_ms > point.latency_ms:
        return False
    if point.high is None and other.low is None:
        same = (other.value, other.latency_ms) == (point.value, point.latency_ms)
        return other.value >= point.value and not same
    least = other.value if other.low is None else other.low
    return least > (point.value if point.high is None else point.high)


def choose_group_power(
    points: Sequence[MeasuredPoint], request: FigureRequest | None
) -> EnergyKind | None:
    """Return the kind of power that most points share; None if no power is asked for or known."""
    if request is None or request.basis is not FigureBasis.WATT:
        return None
    known = [each.energy for each in points if each.energy]
    if not known:
        return None
    return choose_common_energy_kind(known[0], known[1:])


def find_point_divisor(
    point: MeasuredPoint, request: FigureRequest | None, kind: EnergyKind | None
) -> float | None:
    """Return what the rate of a point is divided by; None or 0 if that is unknown."""
    if request is None:
        return 1.0
    match request.basis:
        case FigureBasis.ACCELERATOR:
            return point.machine.accelerators
        case FigureBasis.WATT if kind is not None:
            found = group_widest_energies(point.energy).get(kind)
            return found.average_w if found else None
        case FigureBasis.WATT:
            return point.provisioned_w
        case FigureBasis.DOLLAR:
            if request.prices is None:
                return None
            hourly = request.prices.find_hourly_price(*point.priced_names)
            return None if hourly is None else hourly / S_PER_HOUR


def format_value_unit(point: MeasuredPoint, request: FigureRequest | None) -> str:
    """Format the unit of a figure's throughput."""
    if request is None:
        return point.rate_unit
    if request.prices is not None:
        return f"{point.rate_unit.partition('/')[0]} per {request.prices.currency}"
    return f"{point.rate_unit} per {request.basis}"


def format_point_kind(point: MeasuredPoint) -> str:
    """Format what points of one figure share beside their subject."""
    return ", ".join(filter(None, point.group[1:]))


def describe_divisors(request: FigureRequest | None, kind: EnergyKind | None) -> str:
    """Say where the divisors come from; derived figures are no official metrics."""
    if request is None:
        return ""
    if request.basis is FigureBasis.WATT:
        return kind.description if kind else PROVISIONED_WATTS
    return request.inputs_note


def describe_left_out(reason: str, names: Sequence[str]) -> str:
    """Name the systems of points that are not drawn."""
    count = f"{len(names)} point{'s' * (len(names) != 1)}"
    return f"{count} of {', '.join(dict.fromkeys(names))}: {reason}"
