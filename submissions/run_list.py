"""`podium list runs`: the results in a folder or bundle, the newest first."""

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from submissions.report.records.dates import read_result_day
from submissions.result_columns import RESULT_COLUMNS, rename_column, select_columns
from submissions.result_index import open_results
from submissions.score.command import raise_scoring_problems
from submissions.score.score import score_opened_results
from submissions.tables import apply_answer_colour
from suite.columns import Table
from suite.console.screen import print_progress_note
from suite.files.restoring import list_superseded_results
from suite.result import Result

NAMED_RUN: Final = (
    *select_columns("date", "verdict", "workload", "scenario"),
    rename_column("label", "system"),
)
RUN_TABLE: Final[Table[Result]] = Table(
    columns=(*NAMED_RUN, *select_columns("value", "profile", "folder"))
)
"""A line per result, for people."""
RUN_DATA: Final[Table[Result]] = Table(
    columns=(
        *NAMED_RUN,
        *select_columns("metric", "value", "unit", "compliant", "round", "profile", "org"),
        RESULT_COLUMNS["folder"],
    )
)
"""The keys of a result in JSON."""


def print_runs(path: Path, output_format: str) -> None:
    """Print the results at a path, the newest first; JudgedError if it has none, or if one cannot
    be read.
    """
    problems: list[str] = []
    runs = sorted(iterate_dated_results(path, problems), key=lambda row: row.origin.date)[::-1]
    if output_format == "json":
        click.echo(json.dumps({"runs": RUN_DATA.list_plain_rows(runs)}, indent=2))
    elif runs:
        click.echo("\n".join(RUN_TABLE.list_aligned_lines(runs, apply_answer_colour)))
        mention_superseded_results(path)
    raise_scoring_problems(problems)


def iterate_dated_results(path: Path, problems: list[str]) -> Iterator[Result]:
    """Yield the results at a path with their scores, days and folders below it."""
    with open_results(path) as results:
        root = path if path.is_dir() else results[0].results_root
        for found, row in score_opened_results(path, results, problems):
            place = os.path.relpath(found.single_log or found.folder, root)
            origin = replace(row.origin, date=read_result_day(found, row), folder=place)
            yield replace(row, origin=origin)


def mention_superseded_results(path: Path) -> None:
    """Say how many results were moved aside, and which command lists them."""
    kept = len(list_superseded_results(path.absolute())) if path.is_dir() else 0
    if kept:
        print_progress_note(
            f"{kept} superseded: podium restore --results {shlex.quote(str(path))} lists them"
        )
