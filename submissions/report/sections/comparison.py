"""Results beside one another: bars with intervals and conclusions for each kind, and the table of
`podium compare`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from submissions.cells import (
    NAMING_RATE_UNITS,
    format_known_interval,
    format_known_value,
)
from submissions.compare import table_rows
from submissions.compare.comparison import ComparedResult, Comparison
from submissions.compare.conclusions import count_conclusions, format_conclusion_word
from submissions.compare.verdicts import SpeedVerdict
from submissions.report.document import Axis, Bar, BarChart, Document, Note, Section, Table, Tone
from submissions.report.sections.headlines import find_workload_title
from submissions.report.shown_table import build_shown_table
from suite import __version__, columns
from suite.columns import Column
from suite.files.layout import convert_to_slug
from suite.measurement.metrics import LATENCY_PREFIX, is_higher_better
from suite.units import NS_PER_MS

MAX_DRAWN_BARS: Final = 40
"""Bars of a chart; the table has all results."""
MIN_DRAWN_BARS: Final = 2
MAX_NAMED_PATHS: Final = 2
"""Paths that a page's title names."""
TOO_FEW_BARS: Final = "Fewer than two results can be drawn beside each other; see the table."
BROKEN_BAR: Final = "not compliant: not drawn"


def build_comparison_document(found: Sequence[Comparison], legend: Sequence[str]) -> Document:
    """Build the page of a comparison: the conclusions, then a section for each kind of result."""
    return Document(
        title=format_comparison_title(found),
        parts=(),
        sections=(build_conclusions_section(found), *(build_kind_section(each) for each in found)),
        legend=tuple(legend),
        version=__version__,
    )


def format_comparison_title(found: Sequence[Comparison]) -> str:
    """Name what is compared: its workloads, and the paths if they are few."""
    results = [each for comparison in found for each in comparison.results]
    short = table_rows.format_short_paths({each.path for each in results})
    given = {each.path: each.label for each in results if each.is_named}
    names = [given.get(path, name) for path, name in short.items()]
    workloads = " and ".join(dict.fromkeys(find_workload_title(each.workload) for each in found))
    if not 1 < len(names) <= MAX_NAMED_PATHS:
        return f"{workloads}: comparison"
    return f"{workloads}: {' and '.join(sorted(names))} compared"


class ComparedKind(NamedTuple):
    """A result beside the baseline, with what tells it apart."""

    comparison: Comparison
    name: str
    found: ComparedResult


def name_workload_and_scenario(found: Comparison) -> str:
    """Name the kind of result."""
    return f"{found.workload}, {table_rows.name_scenario(found)}"


def has_several_names(rows: Sequence[ComparedKind]) -> bool:
    """Return whether results of several systems or paths are compared."""
    return len({row.name for row in rows}) != 1


CONCLUSION_TABLE: Final[columns.Table[ComparedKind]] = columns.Table(
    columns=(
        Column(
            "result",
            lambda row: f"{row.comparison.workload}, {table_rows.name_scenario(row.comparison)}",
        ),
        Column("of", lambda row: row.name, when=has_several_names),
        Column("conclusion", lambda row: format_conclusion_word(row.found)),
        Column("times as fast", lambda row: table_rows.format_ratio_cell(row.found)),
    )
)


def iterate_compared_kinds(found: Sequence[Comparison]) -> Iterator[ComparedKind]:
    """Yield each result but the baseline."""
    for comparison in found:
        names = table_rows.list_distinct_names(comparison.results)
        for name, each in zip(names, comparison.results, strict=True):
            if not each.absent and not each.baseline:
                yield ComparedKind(comparison, name, each)


def build_conclusions_section(found: Sequence[Comparison]) -> Section:
    """Sum up the conclusions: how many of each, and a row for each result but the baseline."""
    rows = list(iterate_compared_kinds(found))
    return Section(
        id="conclusions",
        title=(count_conclusions(found) or "nothing compared").capitalize(),
        intro=describe_baselines(found),
        tables=(build_shown_table("Conclusions", CONCLUSION_TABLE, rows),) if rows else (),
    )


def describe_baselines(found: Sequence[Comparison]) -> str:
    """Say what the results are compared with, if it is the same for all kinds, and on what they
    ran, if all ran on the same.
    """
    baselines = {
        name
        for comparison in found
        for name, each in zip(
            table_rows.list_distinct_names(comparison.results), comparison.results, strict=True
        )
        if each.baseline
    }
    told = []
    if len(baselines) == 1:
        told.append(f"Compared with {baselines.pop()}.")
    if systems := table_rows.describe_equal_systems(found):
        told.append(f"All on {systems}.")
    return " ".join(told)


def build_kind_section(found: Comparison) -> Section:
    """Build the section of one workload and scenario."""
    charts = tuple(filter(None, [build_comparison_bars(found), *iterate_reference_bars(found)]))
    shared = table_rows.find_shared_remarks(found)
    notes = [Note(text=f"Of {each.rows}: {'; '.join(each.remarks)}.") for each in shared]
    if not charts:
        notes.insert(0, Note(text=TOO_FEW_BARS))
    return Section(
        id=f"compared-{name_comparison(found)}",
        title=f"{find_workload_title(found.workload)}: {table_rows.name_scenario(found)}",
        bar_charts=charts,
        notes=tuple(notes),
        tables=(build_comparison_table([found], KIND_TABLE),),
    )


def name_comparison(found: Comparison) -> str:
    """Return the part of an id that identifies a kind of result."""
    return convert_to_slug(f"{found.workload}-{table_rows.name_scenario(found)}")


KIND_TABLE: Final = replace(
    table_rows.COMPARISON_TABLE, columns=table_rows.COMPARISON_TABLE.columns[1:]
)
"""Without the workload, which the section's heading says already."""


def build_comparison_table(
    found: Sequence[Comparison],
    shown: columns.Table[table_rows.ShownResult] = table_rows.COMPARISON_TABLE,
) -> Table:
    """Show the rows of `podium compare`."""
    results = [row for each in found for row in table_rows.list_shown_results(each)]
    table = build_shown_table("Comparison", shown, results)
    rows = (tuple(cell.replace("\n", "; ") for cell in row) for row in table.rows)
    return replace(table, rows=tuple(rows))


def build_comparison_bars(found: Comparison) -> BarChart | None:
    """Draw the results of one kind; None if fewer than two can be drawn. A result that does not
    count or is not comparable has no bar.
    """
    bars = list(iterate_comparison_bars(found))
    title = name_workload_and_scenario(found)
    return build_bar_chart(f"bars-{name_comparison(found)}", title, found.metric, found.unit, bars)


def iterate_reference_bars(found: Comparison) -> Iterator[BarChart]:
    """Yield a chart for each group of published rows that may stand beside one another: of one
    round, division, metric and unit.
    """
    groups: dict[tuple[str, ...], list[ComparedResult]] = {}
    for each in found.references:
        key = (each.result.round, each.result.division, each.result.metric, each.result.unit)
        groups.setdefault(key, []).append(each)
    title = name_workload_and_scenario(found)
    for (round_name, division, metric, unit), rows in groups.items():
        where = ", ".join(filter(None, (round_name, f"{division} division" if division else "")))
        bars = [build_reference_bar(each) for each in rows if each.result.value is not None]
        slug = convert_to_slug(f"{round_name}-{division}-{metric}")
        chart = build_bar_chart(
            f"bars-{name_comparison(found)}-{slug}", f"{title}: {where}", metric, unit, bars
        )
        if chart is not None:
            yield chart


def build_bar_chart(
    id: str, title: str, metric: str, unit: str, bars: Sequence[Bar]
) -> BarChart | None:
    """Draw values of one metric; None if fewer than two can be drawn."""
    if sum(each.value is not None for each in bars) < MIN_DRAWN_BARS:
        return None
    drawn = bars[:MAX_DRAWN_BARS]
    more = ""
    if len(bars) > len(drawn):
        more = f" The first {len(drawn)} of {len(bars)} are drawn."
    better = "less"
    if is_higher_better(metric):
        better = "more"
    shown_unit = "ms" if unit == "ns" else unit
    name = "throughput"
    if unit not in NAMING_RATE_UNITS:
        name = metric.replace(LATENCY_PREFIX, "latency, ").replace("_", " ")
    return BarChart(
        id=id,
        title=title,
        description=(
            f"{name.capitalize()} in {shown_unit}: {better} is better. Lines are intervals, from"
            f" three runs on; an arrow goes on to the number below.{more}"
        ),
        axis=Axis(name=f"{name}, {better} is better", unit=shown_unit, low=0.0),
        bars=tuple(drawn),
    )


def iterate_comparison_bars(found: Comparison) -> Iterator[Bar]:
    """Yield a bar for each result of a path, in the order of the paths."""
    names = table_rows.list_distinct_names(found.results)
    for name, each in zip(names, found.results, strict=True):
        if each.absent:
            continue
        reason = find_missing_bar_reason(each, found.unit)
        if reason or each.result.value is None:
            if each.result.compliant:
                tone = Tone.PLAIN
            else:
                tone = Tone.BAD
            yield Bar(name=name, value=None, verdict=reason, tone=tone)
            continue
        yield build_value_bar(each, each.result.value, name, describe_bar_verdict(each))


def build_reference_bar(found: ComparedResult) -> Bar:
    """Build the bar of a published row, named by its organisation too."""
    name = ", ".join(filter(None, (found.result.system, found.result.org)))
    return build_value_bar(found, found.result.value or 0.0, name, str(found.result.machine))


def build_value_bar(found: ComparedResult, value: float, name: str, verdict: str) -> Bar:
    """Build the bar of a value with its interval, in the unit that is shown."""
    factor = 1.0
    if found.result.unit == "ns":
        factor = NS_PER_MS
    figure = table_rows.build_known_figure(found)
    between = format_known_interval(figure)
    return Bar(
        name=name,
        value=value / factor,
        low=None if figure.low is None else figure.low / factor,
        high=None if figure.high is None else figure.high / factor,
        told=f"{format_known_value(figure)}{f' ({between})' if between else ''}",
        verdict=verdict,
    )


def find_missing_bar_reason(found: ComparedResult, unit: str) -> str:
    """Say why a result has no bar in a chart of this unit; empty if it has one."""
    if not found.result.compliant:
        return BROKEN_BAR
    if found.reasons:
        return f"not comparable: {found.reasons[0]}"
    if found.result.unit != unit:
        return f"another unit: {found.result.unit}"
    if found.result.value is not None:
        return ""
    return "no value"


def describe_bar_verdict(found: ComparedResult) -> str:
    """Say whether a result is separable from the baseline, and by how much."""
    if found.baseline:
        return "baseline"
    ratio = table_rows.format_ratio_cell(found)
    times = ""
    if ratio != "-":
        times = f": {ratio} times as fast"
    if found.verdict in (SpeedVerdict.FASTER, SpeedVerdict.SLOWER):
        return f"separable, {found.verdict}{times}"
    return f"{found.verdict or SpeedVerdict.NOT_TESTED}{times}"
