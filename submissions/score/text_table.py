"""Scores as text: one line per result, and one for each further figure of it, in 80 columns."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import click

from submissions.cells import (
    COUNTED_METRICS,
    NAMING_RATE_UNITS,
    describe_tries,
    format_metric_value,
    format_score_value,
    iterate_token_cells,
)
from submissions.result_columns import RESULT_COLUMNS
from submissions.tables import apply_answer_colour
from suite.columns import Column, Table
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_plain_number, format_whole_digits
from suite.records import EnergyRecord
from suite.result import Convergence, Result


class ScoreLine(NamedTuple):
    """A line of a result: its first one, or one of its further figures."""

    result: Result | None
    """None in a further line."""
    metric: str
    value: str
    beside: str = ""
    """A score with its target, or what else stands beside a figure."""


def describe_scored_runs(row: Result) -> str:
    """Name what was run, how often, and in how many tries."""
    name = RESULT_COLUMNS["scenario"].format_cell(row)
    runs = f" \u00d7{len(row.runs)}" if len(row.runs) > 1 else ""
    tries = describe_tries(row)
    return f"{name}{runs}{tries and f', {tries}'}"


def build_first_column(name: str, column: Column[Result]) -> Column[ScoreLine]:
    """Return a column of results that is empty in a result's further lines."""

    def tell_first(line: ScoreLine) -> str:
        if not line.result:
            return ""
        return column.format_cell(line.result)

    return Column(name, tell_first, optional=True)


SCORE_TABLE: Final[Table[ScoreLine]] = Table(
    columns=(
        build_first_column("workload", RESULT_COLUMNS["workload"]),
        build_first_column("scenario", Column("scenario", describe_scored_runs)),
        Column("metric", attrgetter("metric"), optional=True),
        Column("value", attrgetter("value"), optional=True),
        Column("accuracy/target", attrgetter("beside"), optional=True),
        build_first_column("ok", RESULT_COLUMNS["compliant"]),
    )
)


def print_scores(rows: Sequence[Result], paths: Iterable[Path]) -> None:
    """Print the lines of all results, under a heading with what a system's results share, and a
    summary at the end. `paths` are the scored paths.
    """
    lines = [(format_system_heading(row), line) for row in rows for line in iterate_lines(row)]
    head, *shown = SCORE_TABLE.list_aligned_lines([each for _, each in lines], apply_answer_colour)
    for title in dict.fromkeys(title for title, _ in lines):
        click.echo(f"{title}\n{click.style(head, dim=True)}")
        own = (text for (each, _), text in zip(lines, shown, strict=True) if each == title)
        click.echo("\n".join(own) + "\n")
    for row in rows:
        if row.figure.late_tokens is not None:
            click.echo(format_window_note(row))
    click.echo(format_score_summary(rows, paths))


def format_system_heading(row: Result) -> str:
    """Format the properties that all rows of a system share."""
    where = [
        f"{row.round} {row.profile}",
        f"{row.division} division" if row.division else "",
        row.org,
    ]
    position = replace_unprintable(", ".join(filter(None, where)))
    served = row.served_words and f"\nserving: {replace_unprintable(row.served_words)}"
    return f"{replace_unprintable(row.system)}\n{position}{served}".lstrip()


def iterate_lines(row: Result) -> Iterator[ScoreLine]:
    """Yield the lines of a result: its value and first score, further scores beside the figures of
    tokens, power, and the comparison with a reference convergence point.
    """
    first, *others = [*iterate_score_cells(row)] or [""]
    metric = RESULT_COLUMNS["metric"].format_cell(row)
    yield ScoreLine(row, metric, format_value_cell(row), first)
    tokens = iterate_token_cells(row.figure.tokens, row.unit)
    for figure, score in zip_longest(tokens, others):
        name, value = figure or ("", "")
        yield ScoreLine(None, name, value, score or "")
    for name, stated, counted in row.made_with.counted:
        beside = f"podium: {counted}" if counted else ""
        yield ScoreLine(None, f"server: {name}", stated, beside)
    for each in row.energy:
        yield from iterate_power_lines(each)
    yield from iterate_convergence_lines(row)


def iterate_score_cells(row: Result) -> Iterator[str]:
    """Yield each score with its target and its metric."""
    for name, value in row.accuracy.items():
        target = ""
        if name in row.target:
            most = "<=" if name in row.quality.lower_is_better else ""
            target = f"/{most}{format_score_value(row.target[name])}"
        yield f"{format_score_value(value)}{target} {COUNTED_METRICS.get(name, name)}"


def format_value_cell(row: Result) -> str:
    """Format the value, without a unit that the metric names."""
    value = RESULT_COLUMNS["value"].format_cell(row).replace("minutes", "min")
    if row.unit in NAMING_RATE_UNITS:
        return value.removesuffix(f" {row.unit}")
    return value


def iterate_power_lines(energy: EnergyRecord) -> Iterator[ScoreLine]:
    """Yield the power of a channel and, for generated answers, its energy per token."""
    channel = f"{energy.name}, {energy.grade}{energy.edge_error_note}"
    yield ScoreLine(None, "power", f"{energy.average_w:,.2f} W", channel)
    if energy.per_token_j is not None:
        yield ScoreLine(None, "J/token", format_plain_number(energy.per_token_j), channel)


def iterate_convergence_lines(row: Result) -> Iterator[ScoreLine]:
    """Yield the RCP comparison of a run set: the minutes times the factor, which MLCommons'
    tables show, and the reference convergence point.
    """
    found = row.convergence
    if found is None:
        return
    if found.factor > 1 and row.headline is not None:
        headline = f"MLCommons' headline: times {format_whole_digits(found.factor, 6)}"
        yield ScoreLine(None, headline, format_metric_value(row.headline, "min"))
    name = f"{found.outcome}: {found.point or 'none'}"
    yield ScoreLine(None, name, describe_convergence_batch(found))


def describe_convergence_batch(found: Convergence) -> str:
    """Name the batch of a set, where its log states one."""
    if found.batch is None:
        return ""
    return f"batch {format_whole_digits(found.batch)}"


def format_window_note(row: Result) -> str:
    """Say how much of a rate came after the window that it is divided by."""
    whole = format_metric_value(row.figure.whole_run, row.unit)
    return (
        f"{replace_unprintable(row.workload)} {row.scenario}: the rate is over the window until the"
        f" query issued last has ended; {row.figure.late_tokens:.1%} of it came later, over the"
        f" whole run it is {whole}"
    )


def format_score_summary(rows: Sequence[Result], paths: Iterable[Path]) -> str:
    """Count the results that are compliant, with the command that shows the reasons for the
    others.
    """
    good = sum(row.compliant for row in rows)
    total = f"{len(rows)} result{'s' if len(rows) != 1 else ''}, {good} compliant"
    if good == len(rows):
        return total
    return f"{total}; for the reasons: podium check {shlex.join(map(str, paths))}"
