"""Results beside one another: bars with intervals and verdicts for each kind, and the table of
`podium compare`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from submissions.compare import table_rows
from submissions.compare.comparison import ComparedResult, Comparison
from submissions.compare.verdicts import SpeedVerdict
from submissions.metrics import LATENCY_PREFIX, is_higher_better
from submissions.report.document import Axis, Bar, BarChart, Document, Note, Section, Table, Tone
from submissions.report.sections.headlines import find_workload_title
from submissions.tables import NAMING_RATE_UNITS, format_metric_value
from suite import __version__
from suite.files.layout import convert_to_slug
from suite.units import NS_PER_MS

MAX_DRAWN_BARS: Final = 40
"""Bars of a chart; the table has all results."""
MIN_DRAWN_BARS: Final = 2
TOO_FEW_BARS: Final = "Fewer than two results can be drawn beside each other; see the table."
BROKEN_BAR: Final = "not compliant: not drawn"


def build_comparison_document(found: Sequence[Comparison], legend: Sequence[str]) -> Document:
    """Build the page of a comparison: a section for each kind of result."""
    return Document(
        title="Comparison",
        parts=(),
        sections=tuple(build_kind_section(each) for each in found),
        legend=tuple(legend),
        version=__version__,
    )


def build_kind_section(found: Comparison) -> Section:
    """Build the section of one workload and scenario."""
    chart = build_comparison_bars(found)
    shared = table_rows.format_shared_remarks(found)
    return Section(
        id=f"compared-{name_comparison(found)}",
        title=f"{find_workload_title(found.workload)}: {found.scenario or 'training'}",
        intro=f"{shared}." if shared else "",
        bar_charts=(chart,) if chart else (),
        notes=() if chart else (Note(text=TOO_FEW_BARS),),
        tables=(build_comparison_table([found]),),
    )


def name_comparison(found: Comparison) -> str:
    """Return the part of an id that identifies a kind of result."""
    return convert_to_slug(f"{found.workload}-{found.scenario or 'training'}")


def build_comparison_table(found: Sequence[Comparison]) -> Table:
    """Show the rows of `podium compare`."""
    rows = tuple(
        tuple(cell.replace("\n", "; ") for cell in row)
        for each in found
        for row in table_rows.iterate_comparison_rows(each)
    )
    return Table(title="Comparison", columns=table_rows.COMPARISON_COLUMNS, rows=rows)


def build_comparison_bars(found: Comparison) -> BarChart | None:
    """Draw the results of one kind; None if fewer than two can be drawn. A result that does not
    count or is not comparable has no bar.
    """
    bars = list(iterate_comparison_bars(found))
    if sum(each.value is not None for each in bars) < MIN_DRAWN_BARS:
        return None
    drawn = bars[:MAX_DRAWN_BARS]
    more = f" The first {len(drawn)} of {len(bars)} are drawn." if len(bars) > len(drawn) else ""
    better = "more" if is_higher_better(found.metric) else "less"
    unit = "ms" if found.unit == "ns" else found.unit
    name = (
        "throughput"
        if unit in NAMING_RATE_UNITS
        else found.metric.replace(LATENCY_PREFIX, "latency, ").replace("_", " ")
    )
    return BarChart(
        id=f"bars-{name_comparison(found)}",
        title=f"{found.workload}, {found.scenario or 'training'}",
        description=(
            f"{name} in {unit}: {better} is better. Lines are intervals, from three runs on."
            f" {'; '.join(f'{bar.name}: {bar.told or bar.verdict}' for bar in drawn)}.{more}"
        ),
        axis=Axis(name=f"{name}, {better} is better", unit=unit, low=0.0),
        bars=tuple(drawn),
    )


def iterate_comparison_bars(found: Comparison) -> Iterator[Bar]:
    """Yield a bar for each result of a path, in the order of the paths."""
    factor = NS_PER_MS if found.unit == "ns" else 1.0
    names = table_rows.format_short_paths({each.path for each in found.results})
    several = len(names) > 1
    for each in found.results:
        if each.system is None:
            continue
        name = f"{each.system} ({names[each.path]})" if several else each.system
        reason = find_missing_bar_reason(each)
        if reason or each.value is None:
            tone = Tone.PLAIN if each.compliant else Tone.BAD
            yield Bar(name=name, value=None, verdict=reason, tone=tone)
            continue
        interval = each.interval
        told = format_metric_value(each.value, found.unit)
        if interval:
            told += f" ({table_rows.format_interval(interval, found.unit)})"
        yield Bar(
            name=name,
            value=each.value / factor,
            low=interval.low / factor if interval else None,
            high=interval.high / factor if interval else None,
            told=told,
            verdict=describe_bar_verdict(each),
        )


def find_missing_bar_reason(found: ComparedResult) -> str:
    """Say why a result has no bar; empty if it has one."""
    if not found.compliant:
        return BROKEN_BAR
    if found.reasons:
        return f"not comparable: {found.reasons[0]}"
    return "" if found.value is not None else "no value"


def describe_bar_verdict(found: ComparedResult) -> str:
    """Say whether a result is separable from the baseline, and by how much."""
    if found.baseline:
        return "baseline"
    ratio = table_rows.format_ratio_cell(found)
    times = "" if ratio == "-" else f": {ratio} times as fast"
    if found.verdict in (SpeedVerdict.FASTER, SpeedVerdict.SLOWER):
        return f"separable, {found.verdict}{times}"
    return f"{found.verdict or SpeedVerdict.NOT_TESTED}{times}"
