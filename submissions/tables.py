"""Tables for people."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from submissions.score.score import Score

NS_PER_MS: Final = 1e6
WIDTH: Final = 160
"""Columns of a table that goes into a file or a pipe."""


def shown(value: float | None, unit: str) -> str:
    """Print a value for people: latencies in milliseconds, small numbers with more digits."""
    if value is None:
        return "-"
    if unit == "ns":
        value, unit = value / NS_PER_MS, "ms"
    return f"{value:,.{2 if value >= 10 else 4}f} {unit}"


def print_scores(rows: Iterable["Score"]) -> None:
    """Print one line per set."""
    table = Table("workload", "what", "result", "runs", "compliant", "system", "profile", "division", "org")
    for row in rows:
        table.add_row(
            escape(row.workload),
            row.scenario or "training",
            f"[bold]{shown(row.value, row.unit)}[/]",
            str(len(row.runs)),
            "[green]yes[/]" if row.compliant else "[red]no[/]",
            escape(row.system),
            row.profile,
            row.division,
            escape(row.org),
        )
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal; where there is none, wide enough for its words."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=WIDTH)
    console.print(table)
