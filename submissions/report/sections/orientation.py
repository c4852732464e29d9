"""Context of a result: other paths with ratios and conclusions; published rows without ratios."""

from collections.abc import Sequence
from typing import Final

from submissions.cells import format_metric_value
from submissions.compare.command import UNVERIFIED_NOTE
from submissions.compare.comparison import CompareRequest, compare_results
from submissions.published_rows import (
    PUBLISHED_LEGEND,
    read_workload_rows,
    select_rows_of_kind,
)
from submissions.report.document import Section, Table
from submissions.report.sections.comparison import build_comparison_bars, build_comparison_table
from submissions.report.shown_table import build_shown_table
from submissions.result_columns import rename_column, select_columns
from suite import columns
from suite.columns import Column
from suite.result import Result

MAX_PUBLISHED_ROWS: Final = 12
"""Maximum number of published rows of one kind on a page; the rest are counted: `podium published`
lists them all.
"""
PUBLISHED_ROWS_INTRO: Final = (
    "Rows from published rounds, for reference only. podium-v1 is not comparable with any of "
    "them: data, rules and machines differ, so no ratios are given."
)


def build_comparison_section(
    sides: Sequence[Result], paths: Sequence[str], baseline: str | None
) -> Section:
    """Compare the results of several paths as `podium compare` does."""
    comparisons = compare_results(list(sides), list(paths), CompareRequest(baseline=baseline))
    intro = (
        "Times as fast as the first of each kind, with the interval at confidence 0.95, adjusted"
        " for all rows (Holm); in brackets: not tested."
    )
    return Section(
        id="comparison",
        title="Comparison",
        intro=intro,
        bar_charts=tuple(filter(None, map(build_comparison_bars, comparisons))),
        tables=(build_comparison_table(comparisons),),
    )


def build_published_section(sides: Sequence[Result]) -> Section | None:
    """List published rows for the same models; None if there are none."""
    rows = read_workload_rows({side.workload for side in sides})
    tables = []
    for workload, half, scenario, metric in dict.fromkeys(
        (s.workload, s.half, s.scenario, s.metric) for s in sides
    ):
        references = sorted(
            select_rows_of_kind(rows, workload, half, scenario, metric),
            key=lambda row: (row.accelerators or 0, row.round, row.origin.id),
        )
        if references:
            tables.append(build_published_table(references, f"{workload} {scenario or 'training'}"))
    if not tables:
        return None
    return Section(
        id="published", title="Published results", intro=PUBLISHED_ROWS_INTRO, tables=tuple(tables)
    )


def build_published_table(rows: Sequence[Result], name: str) -> Table:
    """Show the first rows, sorted by number of accelerators."""
    more = ""
    if len(rows) > MAX_PUBLISHED_ROWS:
        more = f", the {MAX_PUBLISHED_ROWS} with the fewest accelerators"
    title = f"{name}: {len(rows)} published{more}"
    return build_shown_table(title, PUBLISHED_ROWS, rows[:MAX_PUBLISHED_ROWS], folded=True)


def format_published_machine(row: Result) -> str:
    """Format the number and kind of accelerators."""
    count = "-" if row.accelerators is None else row.accelerators
    return f"{count} \u00d7 {row.accelerator or '-'}"


PUBLISHED_ROWS: Final[columns.Table[Result]] = columns.Table(
    columns=(
        *select_columns("round"),
        rename_column("organisation", "org"),
        *select_columns("system"),
        Column("accelerators", format_published_machine),
        Column("value", lambda row: format_metric_value(row.value, row.unit), numeric=True),
        rename_column("source", "document"),
    )
)
"""One published row beside a result."""


def list_required_notes(any_published: bool) -> tuple[str, ...]:
    """Return the notes that must accompany such results."""
    if any_published:
        return (UNVERIFIED_NOTE, *PUBLISHED_LEGEND)
    return (UNVERIFIED_NOTE, *PUBLISHED_LEGEND[1:])
