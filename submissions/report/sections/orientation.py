"""Context of a result: other paths with ratios and verdicts, engines and precisions, and published
rows without ratios.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.documents.podium.training import is_finite_number
from submissions.compare import table_rows
from submissions.compare.command import UNVERIFIED_NOTE
from submissions.compare.compared_results import ComparisonSide
from submissions.compare.comparison import CompareRequest, compare_results
from submissions.published_rows import (
    PUBLISHED_LEGEND,
    PublishedRow,
    read_workload_rows,
    select_rows_of_kind,
)
from submissions.report.document import Section, Table
from submissions.tables import format_metric_value, format_score_value
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError

MAX_PUBLISHED_ROWS: Final = 12
"""Maximum number of published rows of one kind on a page; the rest are counted: `podium published`
lists them all.
"""
PUBLISHED_ROWS_INTRO: Final = (
    "Rows from published rounds, for reference only. podium-v1 is not comparable with any of "
    "them: data, rules and machines differ, so no ratios are given."
)
PRECISION_COLUMNS: Final = (
    "engine",
    "precision",
    "accuracy",
    "difference",
    "samples/s, Offline",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "times as fast",
    "valid",
)


def build_comparison_section(
    sides: Sequence[ComparisonSide], paths: Sequence[str], baseline: str | None
) -> Section:
    """Compare the results of several paths as `podium compare` does."""
    comparisons = compare_results(list(sides), list(paths), CompareRequest(baseline=baseline))
    rows = tuple(
        tuple(cell.replace("\n", "; ") for cell in row)
        for each in comparisons
        for row in table_rows.iterate_comparison_rows(each)
    )
    intro = (
        "Times as fast as the first of each kind, with the interval at confidence 0.95, adjusted"
        " for all rows (Holm); in brackets: not tested."
    )
    return Section(
        id="comparison",
        title="Comparison",
        intro=intro,
        tables=(Table(title="Comparison", columns=table_rows.COMPARISON_COLUMNS, rows=rows),),
    )


def build_published_section(sides: Sequence[ComparisonSide]) -> Section | None:
    """List published rows for the same models; None if there are none."""
    rows = read_workload_rows({side.score.workload for side in sides})
    tables = []
    for workload, half, scenario, metric in dict.fromkeys(
        (s.score.workload, s.workload_half, s.score.scenario, s.score.metric) for s in sides
    ):
        references = sorted(
            select_rows_of_kind(rows, workload, half, scenario, metric),
            key=lambda row: (row.accelerators or 0, row.round, row.id),
        )
        if references:
            tables.append(build_published_table(references, f"{workload} {scenario or 'training'}"))
    if not tables:
        return None
    return Section(
        id="published", title="Published results", intro=PUBLISHED_ROWS_INTRO, tables=tuple(tables)
    )


def build_published_table(rows: Sequence[PublishedRow], name: str) -> Table:
    """Show the first rows, sorted by number of accelerators."""
    more = (
        f", the {MAX_PUBLISHED_ROWS} with the fewest accelerators"
        if len(rows) > MAX_PUBLISHED_ROWS
        else ""
    )
    cells = tuple(
        (
            row.round,
            row.org,
            row.system,
            format_published_machine(row),
            format_metric_value(row.value, row.unit),
            row.source,
        )
        for row in rows[:MAX_PUBLISHED_ROWS]
    )
    columns = ("round", "organisation", "system", "accelerators", "value", "source")
    return Table(
        title=f"{name}: {len(rows)} published{more}",
        columns=columns,
        rows=cells,
        numeric=(4,),
        folded=True,
    )


def format_published_machine(row: PublishedRow) -> str:
    """Format the number and kind of accelerators."""
    count = "-" if row.accelerators is None else row.accelerators
    return f"{count} \u00d7 {row.accelerator or '-'}"


def list_required_notes(any_published: bool) -> tuple[str, ...]:
    """Return the notes that must accompany such results."""
    return (UNVERIFIED_NOTE, *(PUBLISHED_LEGEND if any_published else PUBLISHED_LEGEND[1:]))


def read_precision_section(root: Path, workload: str) -> Section | None:
    """Show the results of `podium precision`, read from the file that it writes to a results
    folder.
    """
    path = root / f"precision-{workload}.json"
    try:
        document = untrusted_files.read_untrusted_file(
            path, lambda content: msgspec.json.decode(content, type=dict[str, Any])
        )
        rows = tuple(parse_precision_rows(document.get("rows")))
    except (UnreadableError, TypeError, AttributeError):
        return None
    if not rows:
        return None
    table = Table(
        title="Accuracy and speed", columns=PRECISION_COLUMNS, rows=rows, numeric=(4, 5, 6, 7, 8)
    )
    return Section(
        id=f"precision-{workload}",
        title="Engines and precisions",
        intro="Measured by podium precision.",
        tables=(table,),
    )


def parse_precision_rows(rows: object) -> Iterator[tuple[str, ...]]:
    """Yield a row per engine and precision."""
    for row in rows if isinstance(rows, list) else ():
        latency = row.get("latency_ns") or {}
        yield (
            str(row.get("engine")),
            str(row.get("precision")),
            format_named_scores(row.get("scores")),
            format_named_scores(row.get("difference"), sign="+"),
            format_finite_number(row.get("samples_per_second")),
            *(
                format_finite_number(value / 1e6)
                if is_finite_number(value := latency.get(f"p{percent}"))
                else "-"
                for percent in (50, 90, 99)
            ),
            format_finite_number(row.get("speed_up")),
            "yes" if row.get("compliant") is True else f"no: {row.get('why')}",
        )


def format_named_scores(scores: object, sign: str = "") -> str:
    """Format scores as one cell."""
    items = scores.items() if isinstance(scores, dict) else ()
    return (
        ", ".join(
            f"{name} {f'{value:+.4f}' if sign else format_score_value(value)}"
            for name, value in items
            if is_finite_number(value)
        )
        or "-"
    )


def format_finite_number(value: object) -> str:
    """Format a number, or a placeholder if there is none."""
    return f"{value:,.4g}" if is_finite_number(value) else "-"
