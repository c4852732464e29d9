"""Tables for people."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Table

from submissions.metrics import LATENCY
from suite.files.untrusted_files import printable

if TYPE_CHECKING:
    from submissions.score.score import Score

NS_PER_MS: Final = 1e6
HEAD: Final = ("workload", "scenario", "metric", "value", "accuracy/target", "ok")
GAP: Final = "  "
RATES: Final = ("samples/s", "queries/s", "samples/query", "tokens/s")
"""Units that serve as the metric's name."""
UNITLESS: Final = "1"
"""Unit of ratios and shares. Source: the column `unit` of published rows."""
COLOURS: Final = {"yes": "green", "no": "red"}
WIDTH: Final = 160
"""Width in columns of a table written to a file or a pipe."""


def shown(value: float | None, unit: str) -> str:
    """Format a value for people: latencies in milliseconds, small numbers with more digits."""
    if value is None:
        return "-"
    if unit == "ns":
        value, unit = value / NS_PER_MS, "ms"
    return f"{value:,.{2 if value >= 10 else 4}f} {unit}".removesuffix(f" {UNITLESS}")


def print_scores(rows: Sequence["Score"], paths: Iterable[Path]) -> None:
    """Print one line per set, in 80 columns; the heading of a system's rows has what they share,
    and a summary follows. `paths` are the scored paths.
    """
    lines = [(heading(row), part) for row in rows for part in cells(row)]
    shown_columns = [index for index in range(len(HEAD)) if any(part[index] for _, part in lines)]
    widths = [
        max(len(part[index]) for part in (HEAD, *(part for _, part in lines)))
        for index in range(len(HEAD))
    ]

    def line(part: Sequence[str]) -> str:
        return GAP.join(
            coloured(part[index].ljust(widths[index])) for index in shown_columns
        ).rstrip()

    for title in dict.fromkeys(title for title, _ in lines):
        click.echo(f"{title}\n{click.style(line(HEAD), dim=True)}")
        click.echo("\n".join(line(part) for each, part in lines if each == title) + "\n")
    click.echo(summary(rows, paths))


def heading(row: "Score") -> str:
    """Format what all rows of a system share."""
    where = [
        f"{row.round} {row.profile}",
        f"{row.division} division" if row.division else "",
        row.org,
    ]
    return f"{printable(row.system)}\n{printable(', '.join(filter(None, where)))}".lstrip()


def cells(row: "Score") -> Iterator[tuple[str, ...]]:
    """Yield the lines of a row: one, or one per score."""
    what = (row.scenario or "training") + (f" \u00d7{len(row.runs)}" if len(row.runs) > 1 else "")
    if row.attempts and row.attempts > (len(row.runs) if row.scenario else 1):
        what += f", {row.attempts} tries"
    unit = "" if row.unit in RATES else row.unit
    first = (
        printable(row.workload),
        what,
        named(row),
        shown(row.value, unit).replace("minutes", "min").rstrip(),
    )
    scores = [
        f"{digits(value)}{f'/{digits(row.target[name])}' if name in row.target else ''} {name}"
        for name, value in row.accuracy.items()
    ]
    yield (*first, *scores[:1], *[""] * (not scores), "yes" if row.compliant else "no")
    yield from (("", "", "", "", each, "") for each in scores[1:])
    yield from (
        (
            "",
            "",
            "power",
            f"{each.average_w:,.2f} W",
            f"{printable(each.name)}, {each.grade}{each.about}",
            "",
        )
        for each in row.energy
    )
    yield from held(row)


def held(row: "Score") -> Iterator[tuple[str, ...]]:
    """Yield a training set's RCP comparison: the minutes times the factor, and the reference
    convergence point.
    """
    told = row.convergence or {}
    factor, scaled = told.get("factor"), told.get("scaled")
    if isinstance(factor, float) and isinstance(scaled, float) and factor > 1:
        yield ("", "", f"times {factor:.6g}", shown(scaled, "min"), "", "")
    if told:
        yield (
            "",
            "",
            f"{told['outcome']}: {told['point'] or 'none'}",
            f"batch {told['batch']:g}",
            "",
            "",
        )


def named(row: "Score") -> str:
    """Format a metric for people, with the percentile of a latency."""
    if row.metric.startswith(LATENCY):
        return f"{row.metric.removeprefix(LATENCY)} latency"
    return row.unit if row.unit in RATES else row.metric.replace("_", " ")


def digits(score: float) -> str:
    """Format a score: a share with four decimals, BLEU and the like with two."""
    return f"{score:.{2 if abs(score) >= 10 else 4}f}"


def coloured(cell: str) -> str:
    """Colour yes and no."""
    return click.style(cell, fg=COLOURS[cell.strip()]) if cell.strip() in COLOURS else cell


def summary(rows: Sequence["Score"], paths: Iterable[Path]) -> str:
    """Count the results that are compliant, with the command that shows the reasons for the
    others.
    """
    good = sum(row.compliant for row in rows)
    total = f"{len(rows)} result{'s' if len(rows) != 1 else ''}, {good} compliant"
    return (
        total
        if good == len(rows)
        else f"{total}; for the reasons: podium check {shlex.join(map(str, paths))}"
    )


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal; without one, as wide as its content needs."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=WIDTH)
    console.print(table)
