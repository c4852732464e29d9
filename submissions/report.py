"""Tables for people."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from submissions.score import Score

NS_PER_MS = 1e6


def shown(value: float | None, unit: str) -> str:
    """Print a value for people: latencies in milliseconds."""
    if value is None:
        return "-"
    return f"{value / NS_PER_MS:,.3f} ms" if unit == "ns" else f"{value:,.2f} {unit}"


def print_scores(rows: Iterable["Score"]) -> None:
    """Print one line per set."""
    table = Table("workload", "what", "result", "runs", "compliant", "system", "profile", "division", "org")
    for row in rows:
        table.add_row(
            row.workload,
            row.scenario or "training",
            f"[bold]{shown(row.value, row.unit)}[/]",
            str(len(row.runs)),
            "[green]yes[/]" if row.compliant else "[red]no[/]",
            row.system,
            row.profile,
            row.division,
            row.org,
        )
    Console(soft_wrap=False).print(table)
