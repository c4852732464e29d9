"""`podium published`: lists published results as a table, JSON or CSV."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

import click

from submissions.published_rows import COLUMNS, LEGEND, MISSED, Reference, bundled, load, select
from suite.errors import unknown
from suite.files.layout import fold

GAP: Final = "  "


def report(workload: str | None, round: str | None, org: str | None, form: str) -> None:
    """Print the requested rows; RequestError if there is no such round, workload or
    organisation.
    """
    rows = [row for name in ([round] if round else bundled()) for row in load(name)]
    known("published workload", workload, {row.workload for row in rows})
    known("organisation among these results", org, {row.org for row in rows if row.org})
    found = list(select(rows, workload, org))
    if form == "json":
        click.echo(
            json.dumps({"published": [asdict(row) for row in found], "legend": LEGEND}, indent=2)
        )
    elif form == "csv":
        click.echo(table_csv(found), nl=False)
        click.echo("\n".join(LEGEND), err=True)
    else:
        click.echo("\n".join([*table_text(found), "", *LEGEND]))


def known(kind: str, name: str | None, names: set[str]) -> None:
    """Reject an unknown name."""
    if name is not None and fold(name) not in set(map(fold, names)):
        raise unknown(kind, name, names)


def table_csv(rows: Iterable[Reference]) -> str:
    """Format the rows as CSV, in the format that `podium compare --published` reads."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        runs = " ".join(MISSED if run is None else f"{run!r}" for run in row.runs)
        writer.writerow(asdict(row) | {"value": f"{row.value!r}", "runs": runs})
    return text.getvalue()


def table_text(rows: Sequence[Reference]) -> list[str]:
    """Format one line per row, its source last."""
    head = ("round", "workload", "what", "result", "runs", "on", "org", "system", "note", "source")
    lines = [head, *(cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def cells(row: Reference) -> tuple[str, ...]:
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
        on or "not told",
        row.org,
        row.system,
        row.note,
        row.source,
    )
