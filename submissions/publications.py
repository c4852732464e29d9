"""`podium published`: lists published results as a table, JSON or CSV."""

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

import click

from submissions.published_rows import (
    PLAIN_UNIT,
    PUBLISHED_LEGEND,
    PUBLISHED_TABLE,
    compute_row_figure,
    filter_published_rows,
    list_published_files,
    rank_row_by_value,
    read_published_rows,
)
from submissions.result_columns import get_convergence_factor, rename_column, select_columns
from suite.columns import UNKNOWN_CELL, Column, Table, align_told_lines
from suite.errors import RequestError, build_unknown_name_error
from suite.files.layout import fold_name
from suite.human_numbers import format_whole_digits
from suite.measurement.metrics import TIME_TO_TRAIN, DerivedFigure
from suite.result import Result

BELOW_COLUMNS: Final = 3
"""Columns that stand below the others on a terminal: system, note and source."""
BELOW_INDENT: Final = "    "
DOCUMENTS_ROUND: Final = "documents"
"""Rows that documents state, and no round: they come last."""
ROW_DIGITS: Final = 10
"""Digits of a value as it was published."""
HEADLINE_DIGITS: Final = 6
"""Digits of a value times a factor, which has no more."""


class RowOrder(StrEnum):
    """Orders of the rows of one kind of figure."""

    VALUE = "value"
    """The best value first."""
    ACCELERATOR = "accelerator"
    """The best value per accelerator first; rows without one last."""
    ROUND = "round"
    """As in their files."""


def print_published_results(
    workload: str | None,
    round: str | None,
    org: str | None,
    output_format: str,
    order: RowOrder = RowOrder.VALUE,
) -> None:
    """Print the requested rows: as text those of documents only on request, or if no round has any.
    RequestError if there is no such round, workload or organisation, or if a round has no rows of
    the workload.
    """
    names = [round] if round else list_published_files()
    rows = [row for name in names for row in read_published_rows(name)]
    check_published_workload(workload, round, rows)
    check_known_name("organisation among these results", org, {row.org for row in rows if row.org})
    found = list(filter_published_rows(rows, workload, org))
    if order is not RowOrder.ROUND:
        found.sort(key=lambda row: rank_published_row(row, order))
    found.sort(key=lambda row: row.round == DOCUMENTS_ROUND)
    if output_format == "text":
        print_published_table(found, workload)
        return
    legend = (*PUBLISHED_LEGEND, format_list_note(len(found)))
    if output_format == "json":
        document = {
            "published": [convert_published_row_to_data(row) for row in found],
            "legend": legend,
        }
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(PUBLISHED_TABLE.format_csv_text(found), nl=False)
        click.echo("\n".join(legend), err=True)


def print_published_table(rows: Sequence[Result], workload: str | None) -> None:
    """Print rows for people, with how many rows of documents are folded into one line."""
    width = None
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    shown = fold_document_rows(rows)
    notes = [*PUBLISHED_LEGEND, format_list_note(len(shown))]
    if folded := len(rows) - len(shown):
        notes.append(format_folded_note(folded, workload))
    click.echo("\n".join([*format_published_table(shown, width), "", *notes]))


def fold_document_rows(rows: Sequence[Result]) -> Sequence[Result]:
    """Return the rows of rounds; all rows if there are none of rounds."""
    return [row for row in rows if row.round != DOCUMENTS_ROUND] or rows


def format_folded_note(count: int, workload: str | None) -> str:
    """Say how many rows of documents are not listed, and which command lists them."""
    words = " ".join(filter(None, ("podium published", workload)))
    return (
        f"{count} row{'s' * (count != 1)} from documents outside any round (vendors' papers, board"
        f" power): {words} --round {DOCUMENTS_ROUND}"
    )


def format_list_note(rows: int) -> str:
    """Say how many rows are listed, and that others exist."""
    return (
        f"{rows} row{'s' * (rows != 1)}; no complete list: MLCommons' tables have rows that are not"
        " among podium's"
    )


def rank_published_row(row: Result, order: RowOrder) -> tuple[str | float, ...]:
    """Return a sort key: rows of one kind of figure together, the best first."""
    *kind, _ = by_value = rank_row_by_value(row)
    if order is RowOrder.VALUE:
        return by_value
    figure = compute_row_figure(row)
    return (*kind, math.inf if figure is None else math.copysign(figure.value, by_value[-1]))


def convert_published_row_to_data(row: Result) -> dict[str, Any]:
    """Convert a row to plain data, with its headline and its figure per accelerator."""
    figure = compute_row_figure(row)
    derived = {"headline": row.headline, "per_accelerator": asdict(figure) if figure else None}
    return PUBLISHED_TABLE.list_plain_rows([row])[0] | derived


def check_published_workload(
    workload: str | None, round: str | None, rows: Sequence[Result]
) -> None:
    """Raise RequestError for a workload without rows; one that another round has is told so."""
    if workload is None or any(filter_published_rows(rows, workload, None)):
        return
    elsewhere = [
        name
        for name in list_published_files()
        if any(filter_published_rows(read_published_rows(name), workload, None))
    ]
    if round and elsewhere:
        raise RequestError(f"{round} has no rows of {workload}; these have: {', '.join(elsewhere)}")
    raise build_unknown_name_error("published workload", workload, {row.workload for row in rows})


def check_known_name(kind: str, name: str | None, names: set[str]) -> None:
    """Raise RequestError for an unknown name."""
    if name is not None and fold_name(name) not in set(map(fold_name, names)):
        raise build_unknown_name_error(kind, name, names)


def format_published_table(rows: Sequence[Result], width: int | None = None) -> list[str]:
    """Format one line per row, its source last; on a terminal of some width, what follows the
    machine stands below it, and no line is wider.
    """
    lines = SHOWN_TABLE.list_told_rows(rows)
    if width is None:
        return align_texts(lines)
    beside = len(lines[0]) - BELOW_COLUMNS
    table = align_texts([line[:beside] for line in lines])
    return [
        wrapped
        for text, line in zip(table, lines, strict=True)
        for wrapped in (
            *textwrap.wrap(text, width, subsequent_indent=BELOW_INDENT, drop_whitespace=False),
            *textwrap.wrap(
                "; ".join(filter(None, line[beside:])),
                width,
                initial_indent=BELOW_INDENT,
                subsequent_indent=BELOW_INDENT,
            ),
        )
    ]


def align_texts(lines: Sequence[Sequence[str]]) -> list[str]:
    """Join the cells of each line, every column as wide as its widest cell."""
    return list(align_told_lines(lines, [False] * len(lines[0])))


def format_accelerator_figure(figure: DerivedFigure) -> str:
    """Format a figure per accelerator, whose column says what it is per."""
    return f"{format_whole_digits(figure.value, 6)} {figure.unit.removesuffix(' per accelerator')}"


def describe_row_kind(row: Result) -> str:
    """Describe what was measured: its scenario, or its half with the metric."""
    if row.scenario or row.metric == TIME_TO_TRAIN:
        return row.scenario or row.half
    return f"{row.half}, {row.metric}"


def format_headline(row: Result) -> str:
    """Format the value as MLCommons' tables have it."""
    if row.convergence:
        digits = HEADLINE_DIGITS
    else:
        digits = ROW_DIGITS
    told = format_whole_digits(row.headline or 0.0, digits)
    return f"{told} {'' if row.unit == PLAIN_UNIT else row.unit}".rstrip()


def format_row_figure(row: Result) -> str:
    """Format the figure per accelerator; a dash if there is none."""
    figure = compute_row_figure(row)
    if figure:
        return format_accelerator_figure(figure)
    return UNKNOWN_CELL


def describe_row_accelerators(row: Result) -> str:
    """Describe the number and kind of accelerators."""
    if row.accelerators is None:
        return row.accelerator or "unknown"
    # a document names its accelerator as the system
    name = row.accelerator or (row.system if row.round == DOCUMENTS_ROUND else "accelerators")
    if row.accelerators:
        return f"{row.accelerators} x {name}"
    return "no accelerator"


def describe_remarks(row: Result) -> str:
    """Say what the headline contains, and what tells the row from others of its system."""
    factor = get_convergence_factor(row)
    remarks = []
    if factor:
        remarks.append(f"times the factor {format_whole_digits(factor, 6)}")
    return "; ".join([*remarks, *filter(None, [row.origin.note])])


SHOWN_TABLE: Final[Table[Result]] = Table(
    columns=(
        *select_columns("round"),
        Column("division", lambda row: row.division or UNKNOWN_CELL),
        *select_columns("workload"),
        Column("what", describe_row_kind),
        Column("result", format_headline),
        Column("per accelerator", format_row_figure),
        Column("runs", lambda row: str(len(row.runs) or UNKNOWN_CELL)),
        Column("on", describe_row_accelerators),
        *select_columns("org", "system"),
        Column("note", describe_remarks),
        rename_column("source", "document"),
    )
)
"""One row for people."""
