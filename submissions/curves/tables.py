"""Curves as tables: for a terminal and in Markdown."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, TypeVar

import click

from compliance.results.curves import STEADY_STATE, ScoredCurve
from submissions.compare.conclusions import MIN_RATIO_DIGITS, format_ratio
from submissions.compare.tables import encode_markdown_cell, render_markdown_table
from submissions.curves.comparison import (
    FIRST,
    NOT_SEPARABLE,
    OTHER,
    CurveComparison,
    CurveStep,
    iterate_broken_points,
)
from submissions.curves.point_columns import (
    POINT_COLUMNS,
    format_figure,
    format_known_figure,
)
from submissions.tables import apply_answer_colour
from suite.columns import UNKNOWN_CELL, Column, Table
from suite.files.untrusted_files import replace_unprintable
from suite.result import ScoredPoint

Row = TypeVar("Row")

UNTESTED_NOTE: Final = "each ratio is of 1 run per point: not tested"
INTERVAL_NOTE: Final = (
    "± is half of the 95 % interval by Student's t over the runs of a point; a curve is ahead"
    " only beyond the intervals of both"
)
POINT_TABLE: Final[Table[ScoredPoint]] = Table(
    columns=tuple(
        POINT_COLUMNS[name]
        for name in (
            *("region", "concurrency", "system_tps", "tps_per_user", "ttft_p90_ms"),
            *("tps_per_kw", "basis", "compliant"),
        )
    )
)
"""The points of a curve on a terminal."""


def print_curves(curves: Sequence[ScoredCurve]) -> None:
    """Print a table per curve under a heading, and what to know about its points."""
    for curve in curves:
        click.echo(format_curve_heading(curve))
        print_aligned_rows(POINT_TABLE, curve.points)
        for note in iterate_curve_notes(curve):
            click.echo(replace_unprintable(note))
        click.echo()


def format_curve_heading(curve: ScoredCurve) -> str:
    """Format what a curve's points share, and its peak."""
    where = (curve.round, f"{curve.division} division" if curve.division else "", curve.org)
    peak = format_figure(curve.peak, "tokens/s")
    facts = (
        f"C_min {curve.c_min or UNKNOWN_CELL}",
        f"C_max {curve.c_max or UNKNOWN_CELL}",
        f"{curve.point_count} point{'s' * (curve.point_count != 1)}",
        f"peak {peak}",
    )
    return "\n".join(
        (
            replace_unprintable(f"{curve.system}: {curve.model}"),
            replace_unprintable(", ".join(filter(None, where))),
            ", ".join(facts),
        )
    )


def iterate_curve_notes(curve: ScoredCurve) -> Iterator[str]:
    """Yield the rules that points and the curve break, and points with another official basis."""
    steady = sum(each.declared_basis == STEADY_STATE for each in curve.points)
    if steady:
        if steady == 1:
            claim = "declares a steady window for its"
        else:
            claim = "declare a steady window for their"
        yield (
            f"{steady} of {len(curve.points)} point{'s' * (len(curve.points) != 1)} {claim}"
            " official figures; these are of the whole run"
        )
    yield from (f"left out: {each}" for each in iterate_broken_points(curve))
    if curve.failed_rules:
        yield f"the curve breaks {', '.join(curve.failed_rules)}"
    if not curve.compliant:
        yield f"for the reasons: podium check {curve.path}"


def print_aligned_rows(table: Table[Row], rows: Sequence[Row]) -> None:
    """Print rows under their columns."""
    head, *lines = table.list_aligned_lines(rows, apply_answer_colour)
    click.echo("\n".join((click.style(head, dim=True), *lines)))


def print_curve_comparisons(found: Sequence[CurveComparison], unpaired: Sequence[str]) -> None:
    """Print each comparison: who is who, the steps of both curves, and the conclusion; before them
    the curves that are compared with none.
    """
    for name in unpaired:
        click.echo(replace_unprintable(name))
    for each in found:
        for line in iterate_comparison_heading(each):
            click.echo(replace_unprintable(line))
        for table, steps in iterate_comparison_tables(each):
            click.echo()
            print_aligned_rows(table, steps)
        click.echo()
        for line in iterate_comparison_lines(each):
            click.echo(replace_unprintable(line))
        click.echo()


def render_curve_comparisons(found: Sequence[CurveComparison], unpaired: Sequence[str]) -> str:
    """Return the comparisons in Markdown, after the curves that are compared with none."""
    blocks = [encode_markdown_cell(each) for each in unpaired]
    for each in found:
        blocks += map(encode_markdown_cell, iterate_comparison_heading(each))
        blocks += [
            render_markdown_table(table.list_told_rows(steps))
            for table, steps in iterate_comparison_tables(each)
        ]
        blocks += map(encode_markdown_cell, iterate_comparison_lines(each))
    return "\n\n".join(blocks)


def iterate_comparison_heading(found: CurveComparison) -> Iterator[str]:
    """Yield the model and which curve has which name."""
    yield f"{found.first.model}, {found.first.round}"
    for label, curve in ((FIRST, found.first), (OTHER, found.other)):
        name = ", ".join(filter(None, (curve.org, curve.system)))
        yield f"{label}: {name}, {curve.machine} ({curve.path})"


def iterate_comparison_tables(
    found: CurveComparison,
) -> Iterator[tuple[Table[CurveStep], Sequence[CurveStep]]]:
    """Yield tables with their steps: at each speed per user, then at each concurrency of both."""
    speed: Column[CurveStep] = Column(
        "tokens/s per user",
        attrgetter("tps_per_user"),
        tell=lambda step: format_figure(step.tps_per_user),
        numeric=True,
    )
    concurrency: Column[CurveStep] = Column(
        "requests in flight", attrgetter("concurrency"), numeric=True
    )
    for place, steps in ((speed, found.steps), (concurrency, found.matched)):
        if steps:
            yield Table(columns=(place, *build_step_columns(found))), steps


def build_step_columns(found: CurveComparison) -> Iterator[Column[CurveStep]]:
    """Yield the rates and ratios of a comparison's steps: of systems of different size also what a
    kilowatt and an accelerator yield, and which curve is ahead where intervals tell.
    """
    tested = not found.single_runs
    yield build_rate_column("A tokens/s", "first")
    yield build_rate_column("B tokens/s", "other")
    yield build_ratio_column("B/A", "ratio", tested=tested)
    if found.equal_size is False:
        yield build_ratio_column("B/A per kW", "per_kw_ratio", tested=tested)
        yield build_ratio_column("B/A per accelerator", "per_accelerator_ratio", tested=tested)
    if tested:
        yield Column("ahead", lambda step: step.ahead or NOT_SEPARABLE, numeric=True)


def build_rate_column(name: str, curve: str) -> Column[CurveStep]:
    """Return the column of a curve's rate, which is told with its interval."""
    read, find_interval = attrgetter(f"{curve}_tps"), attrgetter(f"{curve}_interval")

    def tell_rate(step: CurveStep) -> str:
        return format_known_figure(read(step), find_interval(step))

    return Column(name, read, tell=tell_rate, numeric=True, optional=True)


def build_ratio_column(name: str, field: str, *, tested: bool) -> Column[CurveStep]:
    """Return the column of a ratio, in brackets if it was not tested."""
    read = attrgetter(field)

    def tell_ratio(step: CurveStep) -> str:
        ratio = read(step)
        if ratio is None:
            return UNKNOWN_CELL
        told = format_ratio(ratio, MIN_RATIO_DIGITS)
        return told if tested else f"({told})"

    return Column(name, read, tell=tell_ratio, numeric=True, optional=True)


def describe_step_test(found: CurveComparison) -> str:
    """Say whether the ratios of a comparison were tested, and by what."""
    if not found.single_runs:
        return INTERVAL_NOTE
    if len(found.single_runs) > 1:
        return UNTESTED_NOTE
    return f"{found.single_runs[0]} has 1 run per point: not tested"


def iterate_comparison_lines(found: CurveComparison) -> Iterator[str]:
    """Yield the conclusion, and what to know with it; last of all what systems of different size
    yield for each accelerator and kilowatt.
    """
    yield f"conclusion: {format_curve_conclusion(found)}"
    if found.steps:
        yield describe_step_test(found)
    yield from iterate_comparison_remarks(found)


def format_curve_conclusion(found: CurveComparison) -> str:
    """Format the conclusion, with a word on systems that are not of one size."""
    if found.reasons or found.equal_size:
        return found.verdict
    sizes = "of different size" if found.equal_size is False else "of unknown size"
    return f"{found.verdict}, as whole systems {sizes}"


def iterate_comparison_remarks(found: CurveComparison) -> Iterator[str]:
    """Yield why two curves are not comparable, which is ahead where, and what differs."""
    yield from (f"not comparable: {each}" for each in found.reasons)
    for each in found.crossings:
        further = (
            "above" if each.ahead_from is None else f"from {format_figure(each.ahead_from)} on"
        )
        yield (
            f"{each.below} is ahead up to {format_figure(each.tps_per_user)} tokens/s per user,"
            f" {each.above} {further}"
        )
    yield from found.notes
