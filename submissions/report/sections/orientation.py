"""Context of a result: other paths with ratios and verdicts, engines and number formats, published
rows without a ratio.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.documents.podium.training import finite
from submissions.compare import table_rows
from submissions.compare.command import UNVERIFIED
from submissions.compare.compared_results import Side
from submissions.compare.comparison import Request, compare
from submissions.published_rows import LEGEND, Reference, about, beside_kind
from submissions.report.document import Section, Table
from submissions.tables import digits, shown
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError

ROWS_MOST: Final = 12
"""Maximum number of published rows of one kind on a page; the rest are counted: `podium published`
lists them all.
"""
NOT_A_RATIO: Final = (
    "Rows of published rounds, for orientation. podium-v1 is compatible with none of them: other"
    " data, other rules, other machines. No ratio is formed."
)
PRECISION_COLUMNS: Final = (
    "engine",
    "number format",
    "accuracy",
    "difference",
    "samples/s, Offline",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "times as fast",
    "valid",
)


def comparison(sides: Sequence[Side], paths: Sequence[str], baseline: str | None) -> Section:
    """Compare the results of several paths as `podium compare` does."""
    found = compare(list(sides), list(paths), Request(baseline=baseline))
    rows = tuple(
        tuple(cell.replace("\n", "; ") for cell in row)
        for each in found
        for row in table_rows.rows(each)
    )
    intro = (
        "Times as fast as the first of each kind, with the interval at confidence 0.95, adjusted"
        " for all rows (Holm); in brackets: not tested."
    )
    return Section(
        id="comparison",
        title="Beside one another",
        intro=intro,
        tables=(Table(title="Comparison", columns=table_rows.HEAD, rows=rows),),
    )


def published(sides: Sequence[Side]) -> Section | None:
    """List published rows of the same models; None if there are none."""
    rows = about({side.score.workload for side in sides})
    tables = []
    for workload, half, scenario, metric in dict.fromkeys(
        (s.score.workload, s.half, s.score.scenario, s.score.metric) for s in sides
    ):
        beside = sorted(
            beside_kind(rows, workload, half, scenario, metric),
            key=lambda row: (row.accelerators or 0, row.round, row.id),
        )
        if beside:
            tables.append(table_of(beside, f"{workload} {scenario or 'training'}"))
    if not tables:
        return None
    return Section(
        id="published", title="Published results", intro=NOT_A_RATIO, tables=tuple(tables)
    )


def table_of(rows: Sequence[Reference], name: str) -> Table:
    """Show the first rows, sorted by number of accelerators."""
    more = f", the {ROWS_MOST} with the fewest accelerators" if len(rows) > ROWS_MOST else ""
    cells = tuple(
        (row.round, row.org, row.system, machine(row), shown(row.value, row.unit), row.source)
        for row in rows[:ROWS_MOST]
    )
    columns = ("round", "organisation", "system", "accelerators", "value", "source")
    return Table(
        title=f"{name}: {len(rows)} published{more}",
        columns=columns,
        rows=cells,
        numeric=(4,),
        folded=True,
    )


def machine(row: Reference) -> str:
    """Format the number and kind of accelerators."""
    count = "-" if row.accelerators is None else row.accelerators
    return f"{count} \u00d7 {row.accelerator or '-'}"


def legend(any_published: bool) -> tuple[str, ...]:
    """Return the notes required wherever such results are shown."""
    return (UNVERIFIED, *(LEGEND if any_published else LEGEND[1:]))


def precision(root: Path, workload: str) -> Section | None:
    """Show the results of `podium precision`, from the file that it writes to a results folder."""
    path = root / f"precision-{workload}.json"
    try:
        document = untrusted_files.read(
            path, lambda content: msgspec.json.decode(content, type=dict[str, Any])
        )
        rows = tuple(precision_rows(document.get("rows")))
    except (UnreadableError, TypeError, AttributeError):
        return None
    if not rows:
        return None
    table = Table(
        title="Accuracy beside speed", columns=PRECISION_COLUMNS, rows=rows, numeric=(4, 5, 6, 7, 8)
    )
    return Section(
        id=f"precision-{workload}",
        title="Engines and number formats",
        intro="As podium precision has measured them.",
        tables=(table,),
    )


def precision_rows(rows: object) -> Iterator[tuple[str, ...]]:
    """Yield a row per engine and number format."""
    for row in rows if isinstance(rows, list) else ():
        latency = row.get("latency_ns") or {}
        yield (
            str(row.get("engine")),
            str(row.get("precision")),
            pairs(row.get("scores")),
            pairs(row.get("difference"), sign="+"),
            number(row.get("samples_per_second")),
            *(
                number(value / 1e6) if finite(value := latency.get(f"p{percent}")) else "-"
                for percent in (50, 90, 99)
            ),
            number(row.get("speed_up")),
            "yes" if row.get("compliant") is True else f"no: {row.get('why')}",
        )


def pairs(scores: object, sign: str = "") -> str:
    """Format scores as one cell."""
    told = scores.items() if isinstance(scores, dict) else ()
    return (
        ", ".join(
            f"{name} {f'{value:+.4f}' if sign else digits(value)}"
            for name, value in told
            if finite(value)
        )
        or "-"
    )


def number(value: object) -> str:
    """Format a number, or that there is none."""
    return f"{value:,.4g}" if finite(value) else "-"
