"""`podium published`: lists published results as a table, JSON or CSV."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

import click

from submissions.metrics import is_higher_better
from submissions.published_rows import (
    MISSED_RUN_MARK,
    PUBLISHED_COLUMNS,
    PUBLISHED_LEGEND,
    PublishedRow,
    filter_published_rows,
    list_published_files,
    read_published_rows,
)
from suite.errors import build_unknown_name_error
from suite.files.layout import fold_name

PUBLISHED_COLUMN_GAP: Final = "  "


def print_published_results(
    workload: str | None,
    round: str | None,
    org: str | None,
    output_format: str,
    *,
    best_first: bool = False,
) -> None:
    """Print the requested rows, in the order of their files or sorted by value; RequestError if
    there is no such round, workload or organisation.
    """
    rows = [
        row
        for name in ([round] if round else list_published_files())
        for row in read_published_rows(name)
    ]
    check_known_name("published workload", workload, {row.workload for row in rows})
    check_known_name("organisation among these results", org, {row.org for row in rows if row.org})
    found = list(filter_published_rows(rows, workload, org))
    if best_first:
        found.sort(key=rank_published_row)
    if output_format == "json":
        click.echo(
            json.dumps(
                {"published": [asdict(row) for row in found], "legend": PUBLISHED_LEGEND}, indent=2
            )
        )
    elif output_format == "csv":
        click.echo(format_published_csv(found), nl=False)
        click.echo("\n".join(PUBLISHED_LEGEND), err=True)
    else:
        click.echo("\n".join([*format_published_table(found), "", *PUBLISHED_LEGEND]))


def rank_published_row(row: PublishedRow) -> tuple[str, str, str, str, str, float]:
    """Return a sort key: rows of one kind of figure together, the best value first."""
    worse = -row.value if is_higher_better(row.metric) else row.value
    return (fold_name(row.workload), row.half, row.scenario, row.metric, row.unit, worse)


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
    head = ("round", "workload", "what", "result", "runs", "on", "org", "system", "note", "source")
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
    )
    what = row.scenario or (
        row.half if row.metric == "time_to_train" else f"{row.half}, {row.metric}"
    )
    runs = str(len(row.runs) or "-")
    return (
        row.round,
        row.workload,
        what,
        f"{row.value:,.10g} {row.unit}",
        runs,
        on or "unknown",
        row.org,
        row.system,
        row.note,
        row.source,
    )
