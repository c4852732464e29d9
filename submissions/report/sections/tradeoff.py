"""Throughput against latency in a report and on a site: one figure over systems, engines,
precisions and batches, with the Pareto front.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from submissions.compare.per_unit import FigureRequest
from submissions.machines import describe_published_system
from submissions.report.document import (
    Axis,
    Chart,
    Line,
    Note,
    Section,
    Table,
    Tone,
)
from submissions.report.sections.front_lines import build_dominated_line, build_front_line
from submissions.report.sections.headlines import find_workload_title
from submissions.report.sections.names import PROCESSOR_FIELD
from submissions.report.shown_table import build_shown_table
from submissions.tradeoff.figures import (
    Tradeoff,
    TradeoffPoint,
    build_compared_tradeoffs,
    build_tradeoffs,
)
from submissions.tradeoff.point_columns import SHOWN_TABLE, format_point_value
from submissions.tradeoff.points import BATCH_LATENCY, MeasuredPoint
from suite.files.layout import convert_to_slug
from suite.human_numbers import format_whole_digits
from suite.loadgen.scenario import Scenario
from suite.measurement.metrics import LATENCY_PREFIX
from suite.result import Result
from suite.units import NS_PER_MS

TRADEOFF_SECTION_ID: Final = "tradeoff"
MAX_NAMED_SERIES: Final = 6
"""Series with a line and a name of their own, those on the front first; the others are rings."""
FAR_APART: Final = 20.0
"""Ratio of the highest to the lowest throughput from which on the axis is logarithmic."""
TRADEOFF_INTRO: Final = (
    "A point is one system with its engine, precision and batch. The step line is the Pareto front:"
    " the highest throughput within each latency. It is drawn through values, not intervals, so"
    " neighbours on it need not be separable. A point beside it is off the front only where a point"
    " that is as quick is faster beyond the intervals of both."
)


def iterate_result_points(results: Sequence[Result], source: str) -> Iterator[MeasuredPoint]:
    """Yield a point for each system with results of Offline and SingleStream: the rate of the one
    against the latency of the other.
    """
    served: dict[tuple[str, ...], dict[str, Result]] = {}
    for each in results:
        place = (each.workload, each.round, each.profile, each.division, each.org, each.system)
        served.setdefault(place, {})[each.scenario or ""] = each
    for key, found in served.items():
        offline = found.get(Scenario.OFFLINE.label)
        single = found.get(Scenario.SINGLE_STREAM.label)
        if not (offline and single and offline.value and single.value and single.unit == "ns"):
            continue
        machine, described = offline.machine, describe_published_system(offline)
        percentile = single.metric.removeprefix(LATENCY_PREFIX)
        yield MeasuredPoint(
            group=key[:4],
            source=source,
            system=" ".join(filter(None, (find_shown_organisation(offline), offline.system))),
            machine=machine,
            hardware=(described.get(PROCESSOR_FIELD) if not machine.accelerators else None)
            or str(machine),
            engine=offline.engine or "",
            precision=offline.precision or "",
            batch=None,
            rate=offline.value,
            rate_unit=offline.unit,
            low=offline.low,
            high=offline.high,
            latency_ms=single.value / NS_PER_MS,
            latency=f"{percentile} of SingleStream, throughput of Offline",
            priced_names=(offline.system, offline.accelerator or ""),
            energy=offline.energy,
            compliant=offline.compliant and single.compliant,
        )


def find_shown_organisation(found: Result) -> str:
    """Return the organisation of a published result; podium's own are named by their system."""
    if found.is_published:
        return found.org
    return ""


def build_drawn_tradeoffs(
    points: Sequence[MeasuredPoint], per: FigureRequest | None
) -> list[Tradeoff]:
    """Build the figures of sweeps, and those of results and curves that more than one system
    has.
    """
    swept = [point for point in points if point.latency == BATCH_LATENCY]
    others = [point for point in points if point.latency != BATCH_LATENCY]
    return [*build_tradeoffs(swept, per), *build_compared_tradeoffs(others, per)]


def build_tradeoff_section(found: Sequence[Tradeoff]) -> Section | None:
    """Draw all figures of throughput against latency; None if there are none."""
    if not found:
        return None
    parts = tuple(build_tradeoff_part(each, number) for number, each in enumerate(found, 1))
    return Section(
        id=TRADEOFF_SECTION_ID,
        title="Throughput against latency",
        intro=TRADEOFF_INTRO,
        parts=parts,
    )


def build_tradeoff_part(found: Tradeoff, number: int) -> Section:
    """Draw one figure, with its points as a table."""
    charts = (build_tradeoff_chart(found, number),) if found.points else ()
    derived = f" Derived figures are not official metrics: {found.inputs}." if found.inputs else ""
    return Section(
        id=f"tradeoff-{number}",
        title=f"{find_workload_title(found.workload)}: {found.kind}",
        intro=f"Latency: {found.latency}.{derived}",
        charts=charts,
        notes=tuple(Note(text=f"{text}.", tone=Tone.CAUTION) for text in found.left_out),
        tables=(build_tradeoff_table(found),) if found.points else (),
    )


def build_tradeoff_chart(found: Tradeoff, number: int) -> Chart:
    """Draw the points of one figure, the front on top."""
    values = [each.value for each in found.points]
    far = min(values) > 0 and max(values) > FAR_APART * min(values)
    front = [each for each in found.points if each.front]
    ends = front[0], front[-1]
    latency = found.latency.partition(",")[0]
    return Chart(
        id=f"tradeoff-{number}-{convert_to_slug(found.workload)}",
        title=f"{found.workload}: throughput against latency",
        description=(
            f"{len(front)} of {len(found.points)} points are on the front, from"
            f" {format_point_value(ends[0])} at {format_whole_digits(ends[0].latency_ms)} ms"
            f" ({name_point(ends[0])}) to {format_point_value(ends[1])} at"
            f" {format_whole_digits(ends[1].latency_ms)} ms ({name_point(ends[1])})."
        ),
        x=Axis(name=latency, unit="ms", log=True),
        y=Axis(name="throughput", unit=found.unit, log=far, low=None if far else 0.0),
        lines=tuple(iterate_tradeoff_lines(found.points, front)),
    )


def iterate_tradeoff_lines(
    points: Sequence[TradeoffPoint], front: Sequence[TradeoffPoint]
) -> Iterator[Line]:
    """Yield a line through the batches of each series, those of the front first, rings for the
    series that have no room, and the front.
    """
    several = len({each.system for each in points}) > 1
    series: dict[str, list[TradeoffPoint]] = {}
    for each in (*front, *points):
        series.setdefault(name_series(each, several=several), [])
    for each in points:
        series[name_series(each, several=several)].append(each)
    named = dict(list(series.items())[:MAX_NAMED_SERIES])
    for name, found in named.items():
        ordered = sorted(found, key=lambda each: (each.batch or 0, each.in_flight or 0))
        intervals = [
            None if each.low is None or each.high is None else (each.low, each.high)
            for each in ordered
        ]
        yield Line(
            name=name,
            points=tuple(map(place_point_in_panel, ordered)),
            dots=True,
            y_intervals=tuple(intervals) if any(intervals) else (),
        )
    others = [each for name, found in series.items() if name not in named for each in found]
    if others:
        yield build_dominated_line(
            f"{len(series) - len(named)} others", list(map(place_point_in_panel, others))
        )
    yield build_front_line("Pareto front", list(map(place_point_in_panel, front)), rising=True)


def name_series(point: TradeoffPoint, *, several: bool) -> str:
    """Name the points that differ in their batch alone; the system only if there are several."""
    means = [each for each in (point.engine, point.precision) if each]
    if several:
        means = [each for each in means if each not in point.system.split("-")]
    if several or not means:
        means.insert(0, point.system)
    return " ".join(means)


def name_point(point: TradeoffPoint) -> str:
    """Name one point."""
    batch = ""
    if point.batch is not None:
        batch = f"batch {point.batch}"
    flying = ""
    if point.in_flight is not None:
        flying = f"{point.in_flight} in flight"
    return ", ".join(filter(None, (point.system, point.engine, point.precision, batch, flying)))


def place_point_in_panel(point: TradeoffPoint) -> tuple[float, float]:
    """Return where a point lies."""
    return point.latency_ms, point.value


def build_tradeoff_table(found: Tradeoff) -> Table:
    """List the points of one figure."""
    return build_shown_table("Points", SHOWN_TABLE, found.points)
