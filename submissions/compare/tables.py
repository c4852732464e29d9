"""Comparison tables for a terminal and in Markdown."""

import re
from collections.abc import Iterable, Sequence
from html import escape as plain_html
from typing import Final

import rich.table
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from submissions.compare.comparison import Comparison
from submissions.compare.scaling import Scaling
from submissions.compare.table_rows import (
    COMPARISON_TABLE,
    SCALING_TABLE,
    find_shared_remarks,
    format_shared_remarks,
    list_shown_results,
    list_shown_steps,
    name_scenario,
)
from submissions.tables import create_table_console, print_table
from suite.files.untrusted_files import replace_unprintable

MIN_TABLE_WIDTH: Final = 120
"""Columns of a terminal from which on results are printed as a table."""
MARKDOWN_SPECIAL_CHARACTERS: Final = re.compile(r"[\\`*_\[\]|~]")
"""Characters with a meaning in Markdown."""


def print_comparisons(comparisons: Iterable[Comparison]) -> None:
    """Print one line per result, with its differences or the reasons why it is not comparable."""
    console = create_table_console()
    if console.width < MIN_TABLE_WIDTH:
        for comparison in comparisons:
            print_stacked_comparison(console, comparison)
        return
    comparisons = list(comparisons)
    for shared in (line for each in comparisons for line in format_shared_remarks(each)):
        console.print(escape(shared))
    told = (COMPARISON_TABLE.list_told_rows(list_shown_results(each)) for each in comparisons)
    print_table(build_terminal_table(told))


def build_terminal_table(told: Iterable[Sequence[Sequence[str]]]) -> rich.table.Table:
    """Build a table from headings and cells; each part, with the same headings, is set apart."""
    table = rich.table.Table()
    for heads, *rows in told:
        if not table.columns:
            for head in heads:
                table.add_column(head)
        for row in rows:
            table.add_row(*map(escape, row))
        table.add_section()
    return table


def print_stacked_comparison(console: Console, comparison: Comparison) -> None:
    """Print one result below the other, for a terminal that is too narrow for the table."""
    console.print(f"[bold]{escape(comparison.workload)}[/] {name_scenario(comparison)}")
    for group in find_shared_remarks(comparison):
        console.print(f"  {group.rows}:")
        for line in group.remarks:
            console.print(Padding(escape(line), (0, 0, 0, 4), expand=False))
    _, *rows = COMPARISON_TABLE.list_told_rows(list_shown_results(comparison))
    for _, result, ratio, system, origin, remarks in rows:
        value, *details = result.split("\n")
        head = f"{origin}: {value}" + (f" ({', '.join(details)})" if details else "")
        console.print(Padding(escape(head), (0, 0, 0, 2), expand=False))
        speed, verdict = ratio.split("\n")
        lines = (
            verdict if speed in ("1", "-") else f"{speed}: {verdict}",
            system.replace("\n", ", "),
        )
        for line in (each for each in lines if each != "-"):
            console.print(Padding(escape(line), (0, 0, 0, 4), expand=False))
        for line in filter(None, remarks.split("\n")):
            console.print(Padding(escape(line), (0, 0, 0, 4), expand=False))
    console.print()


def print_scalings(scalings: Iterable[Scaling]) -> None:
    """Print one line per number of accelerators."""
    for scaling in scalings:
        told = SCALING_TABLE.list_told_rows(list_shown_steps(scaling))
        print_table(build_terminal_table([told]))


def render_comparison_tables(
    comparisons: Iterable[Comparison], scalings: Iterable[Scaling]
) -> list[str]:
    """Return the tables in Markdown, after what all rows of a comparison share."""
    comparisons = list(comparisons)
    shared = (line for each in comparisons for line in format_shared_remarks(each))
    rows = [row for each in comparisons for row in list_shown_results(each)]
    return [
        *map(encode_markdown_cell, shared),
        render_markdown_table(COMPARISON_TABLE.list_told_rows(rows)),
        *(
            render_markdown_table(SCALING_TABLE.list_told_rows(list_shown_steps(each)))
            for each in scalings
        ),
    ]


def render_markdown_table(told: Sequence[Sequence[str]]) -> str:
    """Return headings and cells as one table in Markdown, with untrusted text escaped."""
    head, *lines = told
    table = [
        head,
        ["---"] * len(head),
        *([encode_markdown_cell(cell) for cell in line] for line in lines),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def encode_markdown_cell(cell: str) -> str:
    """Escape what Markdown and HTML would interpret; lines of a cell are separated by breaks."""
    return "<br>".join(
        plain_html(
            MARKDOWN_SPECIAL_CHARACTERS.sub(r"\\\g<0>", replace_unprintable(line)), quote=False
        )
        for line in cell.split("\n")
    )
