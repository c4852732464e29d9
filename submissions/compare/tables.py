"""Comparison tables for a terminal and in Markdown."""

import re
from collections.abc import Iterable, Sequence
from html import escape as plain_html
from typing import Final

from rich.markup import escape
from rich.table import Table

from submissions.compare.comparison import Comparison
from submissions.compare.scaling import Scaling
from submissions.compare.table_rows import HEAD, SCALING_HEAD, rows, steps
from submissions.tables import print_table
from suite.files.untrusted_files import printable

SPECIAL: Final = re.compile(r"[\\`*_\[\]|~]")
"""Characters with a meaning in Markdown."""


def print_comparisons(comparisons: Iterable[Comparison]) -> None:
    """Print one line per result, with the reasons why it is not comparable, or its differences."""
    table = Table(*HEAD)
    for comparison in comparisons:
        for row in rows(comparison):
            table.add_row(*map(escape, row))
        table.add_section()
    print_table(table)


def print_scalings(scalings: Iterable[Scaling]) -> None:
    """Print one line per number of accelerators."""
    for scaling in scalings:
        table = Table(*SCALING_HEAD)
        for row in steps(scaling):
            table.add_row(*map(escape, row))
        print_table(table)


def markdown(comparisons: Iterable[Comparison], scalings: Iterable[Scaling]) -> list[str]:
    """Return the tables in Markdown."""
    return [
        of_rows(HEAD, [row for each in comparisons for row in rows(each)]),
        *(of_rows(SCALING_HEAD, list(steps(each))) for each in scalings),
    ]


def of_rows(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return one table in Markdown, with untrusted text escaped."""
    table = [head, ["---"] * len(head), *([quoted(cell) for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def quoted(cell: str) -> str:
    """Escape what Markdown and HTML would interpret; lines of a cell are separated by breaks."""
    return "<br>".join(
        plain_html(SPECIAL.sub(r"\\\g<0>", printable(line)), quote=False)
        for line in cell.split("\n")
    )
