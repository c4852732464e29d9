"""`podium published`: lists published results as a table, JSON or CSV."""

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final

import click

from submissions.metrics import DerivedFigure, is_higher_better
from submissions.published_rows import (
    MISSED_RUN_MARK,
    PLAIN_UNIT,
    PUBLISHED_COLUMNS,
    PUBLISHED_LEGEND,
    PublishedRow,
    filter_published_rows,
    list_published_files,
    read_published_rows,
)
from suite.errors import RequestError, build_unknown_name_error
from suite.files.layout import fold_name

PUBLISHED_COLUMN_GAP: Final = "  "
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
    """Print the requested rows; RequestError if there is no such round, workload or organisation,
    or if a round has no rows of the workload.
    """
    rows = [
        row
        for name in ([round] if round else list_published_files())
        for row in read_published_rows(name)
    ]
    check_published_workload(workload, round, rows)
    check_known_name("organisation among these results", org, {row.org for row in rows if row.org})
    found = list(filter_published_rows(rows, workload, org))
    if order is not RowOrder.ROUND:
        found.sort(key=lambda row: rank_published_row(row, order))
    if output_format == "json":
        document = {
            "published": [convert_published_row_to_data(row) for row in found],
            "legend": PUBLISHED_LEGEND,
        }
        click.echo(json.dumps(document, indent=2))
    elif output_format == "csv":
        click.echo(format_published_csv(found), nl=False)
        click.echo("\n".join(PUBLISHED_LEGEND), err=True)
    else:
        click.echo("\n".join([*format_published_table(found), "", *PUBLISHED_LEGEND]))


def rank_published_row(row: PublishedRow, order: RowOrder) -> tuple[str, str, str, str, str, float]:
    """Return a sort key: rows of one kind of figure together, the best first."""
    figure = row.accelerator_figure
    if order is RowOrder.VALUE:
        worse = -row.headline if is_higher_better(row.metric) else row.headline
    elif figure is None:
        worse = math.inf
    else:
        worse = -figure.value if is_higher_better(row.metric) else figure.value
    return (fold_name(row.workload), row.half, row.scenario, row.metric, row.unit, worse)


def convert_published_row_to_data(row: PublishedRow) -> dict[str, Any]:
    """Convert a row to plain data, with its headline and its figure per accelerator."""
    figure = row.accelerator_figure
    derived = {"headline": row.headline, "per_accelerator": asdict(figure) if figure else None}
    return asdict(row) | derived


def check_published_workload(
    workload: str | None, round: str | None, rows: Sequence[PublishedRow]
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


def format_published_csv(rows: Iterable[PublishedRow]) -> str:
    """Format the rows as CSV, in the format that `podium compare --published` reads."""
    text = io.StringIO()
    writer = csv.DictWriter(text, PUBLISHED_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        runs = " ".join(MISSED_RUN_MARK if run is None else f"{run!r}" for run in row.runs)
        writer.writerow(asdict(row) | {"value": f"{row.value!r}", "runs": runs})
    return text.getvalue()


def format_published_table(rows: Sequence[PublishedRow]) -> list[str]:
    """Format one line per row, its source last."""
    head = (
        "round",
        "division",
        "workload",
        "what",
        "result",
        "per accelerator",
        "runs",
        "on",
        "org",
        "system",
        "note",
        "source",
    )
    lines = [head, *(format_published_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        PUBLISHED_COLUMN_GAP.join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def format_published_cells(row: PublishedRow) -> tuple[str, ...]:
    """Format one row."""
    on = (
        row.accelerator
        if row.accelerators is None
        else f"{row.accelerators} x {row.accelerator or 'accelerators'}"
        if row.accelerators
        else "no accelerator"
    )
    what = row.scenario or (
        row.half if row.metric == "time_to_train" else f"{row.half}, {row.metric}"
    )
    runs = str(len(row.runs) or "-")
    figure = row.accelerator_figure
    factor = row.convergence_factor
    remarks = [f"times the factor {factor:.6g}"] if factor else []
    return (
        row.round,
        row.division or "-",
        row.workload,
        what,
        f"{row.headline:,.{HEADLINE_DIGITS if factor else ROW_DIGITS}g}"
        f" {'' if row.unit == PLAIN_UNIT else row.unit}".rstrip(),
        format_accelerator_figure(figure) if figure else "-",
        runs,
        on or "unknown",
        row.org,
        row.system,
        "; ".join([*remarks, *filter(None, [row.note])]),
        row.source,
    )


def format_accelerator_figure(figure: DerivedFigure) -> str:
    """Format a figure per accelerator, whose column says what it is per."""
    return f"{figure.value:,.6g} {figure.unit.removesuffix(' per accelerator')}"
