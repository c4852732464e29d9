"""Curves as tables: for a terminal and in Markdown."""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from compliance.results.curves import STEADY_STATE, ScoredCurve
from submissions.compare.table_rows import MIN_RATIO_DIGITS, format_ratio
from submissions.compare.tables import encode_markdown_cell, render_markdown_table
from submissions.curves.comparison import (
    FIRST,
    OTHER,
    CurveComparison,
    CurveStep,
    iterate_broken_points,
)
from submissions.tables import SCORE_COLUMN_GAP, apply_answer_colour
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_whole_digits
from suite.result import ScoredPoint

POINT_COLUMNS: Final = (
    "region",
    "in flight",
    "tokens/s",
    "per user",
    "TTFT P90",
    "per kW",
    "basis",
    "ok",
)
REGION_NAMES: Final = {
    "low_latency": "low latency",
    "low_concurrency": "low",
    "med_concurrency": "medium",
    "high_concurrency": "high",
    "margin": "margin",
    "offline": "Offline",
}
"""Region -> its name in tables and figures."""
UNKNOWN: Final = "-"
FIGURE_DIGITS: Final = 5
UNTESTED_NOTE: Final = "each ratio is of 1 run per point: not tested"


def print_curves(curves: Sequence[ScoredCurve]) -> None:
    """Print a table per curve under a heading, and what to know about its points."""
    for curve in curves:
        click.echo(format_curve_heading(curve))
        rows = [build_point_cells(each) for each in curve.points]
        print_aligned_rows(POINT_COLUMNS, rows)
        for note in iterate_curve_notes(curve):
            click.echo(replace_unprintable(note))
        click.echo()


def format_curve_heading(curve: ScoredCurve) -> str:
    """Format what a curve's points share, and its peak."""
    where = (curve.round, f"{curve.division} division" if curve.division else "", curve.org)
    peak = format_figure(curve.peak, "tokens/s")
    facts = (
        f"C_min {curve.c_min or UNKNOWN}",
        f"C_max {curve.c_max or UNKNOWN}",
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


def build_point_cells(point: ScoredPoint) -> tuple[str, ...]:
    """Build the cells of a point."""
    return (
        format_region(point),
        format_concurrency(point.concurrency),
        format_figure(point.system_tps),
        format_figure(point.tps_per_user),
        format_figure(point.ttft_p90_ms, "ms"),
        format_figure(point.tps_per_kw),
        point.basis.replace("_", " "),
        "yes" if point.compliant else "no",
    )


def format_region(point: ScoredPoint) -> str:
    """Format the region of a point, and whether it is elected as the Offline result."""
    name = REGION_NAMES.get(point.region or "", UNKNOWN)
    return f"{name}, Offline" if point.offline and point.is_fixed else name


def format_concurrency(value: int | None) -> str:
    """Format a number of requests in flight."""
    return UNKNOWN if value is None else str(value)


def format_figure(value: float | None, unit: str = "") -> str:
    """Format a figure with five significant digits, and all digits of its whole part."""
    if value is None:
        return UNKNOWN
    return f"{format_whole_digits(value, FIGURE_DIGITS)} {unit}".rstrip()


def iterate_curve_notes(curve: ScoredCurve) -> Iterator[str]:
    """Yield the rules that points and the curve break, and points with another official basis."""
    steady = sum(each.declared_basis == STEADY_STATE for each in curve.points)
    if steady:
        claim = (
            "declares a steady window for its"
            if steady == 1
            else "declare a steady window for their"
        )
        yield (
            f"{steady} of {len(curve.points)} point{'s' * (len(curve.points) != 1)} {claim}"
            " official figures; these are of the whole run"
        )
    yield from (f"left out: {each}" for each in iterate_broken_points(curve))
    if curve.failed_rules:
        yield f"the curve breaks {', '.join(curve.failed_rules)}"
    if not curve.compliant:
        yield f"for the reasons: podium check {curve.path}"


def print_aligned_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their columns, numbers to the right; columns without a value are left
    out.
    """
    shown = [
        place
        for place in range(len(columns))
        if any(row[place] not in ("", UNKNOWN) for row in rows)
    ]
    widths = {place: max(len(row[place]) for row in (columns, *rows)) for place in shown}
    for number, row in enumerate((columns, *rows)):
        texts = list(map(replace_unprintable, row))
        cells = [align_cell(texts[place], widths[place], columns[place]) for place in shown]
        line = SCORE_COLUMN_GAP.join(cells).rstrip()
        click.echo(line if number else click.style(line, dim=True))


def align_cell(text: str, width: int, column: str) -> str:
    """Align a cell in its column: words to the left, numbers to the right."""
    if column == POINT_COLUMNS[-1]:
        return apply_answer_colour(text)
    if column in ("region", "basis"):
        return text.ljust(width)
    return text.rjust(width)


def print_curve_comparisons(found: Sequence[CurveComparison], unpaired: Sequence[str]) -> None:
    """Print each comparison: who is who, the steps of both curves, and the verdict; before them the
    curves that are compared with none.
    """
    for name in unpaired:
        click.echo(replace_unprintable(name))
    for each in found:
        for line in iterate_comparison_heading(each):
            click.echo(replace_unprintable(line))
        for columns, rows in iterate_comparison_tables(each):
            click.echo()
            print_aligned_rows(columns, rows)
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
            render_markdown_table(columns, rows)
            for columns, rows in iterate_comparison_tables(each)
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
) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield columns and rows: at each speed per user, then at each concurrency of both."""
    sized = found.equal_size is False
    added = ["B/A per kW", "B/A per accelerator"] if sized else []
    for name, steps in (("tokens/s per user", found.steps), ("requests in flight", found.matched)):
        columns = [name, "A tokens/s", "B tokens/s", "B/A", *added]
        if steps:
            yield columns, [build_step_cells(each, sized) for each in steps]


def build_step_cells(step: CurveStep, sized: bool) -> list[str]:
    """Build the cells of a step; `sized` adds what a kilowatt and an accelerator yield."""
    place = format_figure(step.tps_per_user) if step.concurrency is None else str(step.concurrency)
    ratios = [step.ratio, *((step.per_kw_ratio, step.per_accelerator_ratio) if sized else ())]
    rates = [format_figure(each) for each in (step.first_tps, step.other_tps)]
    return [place, *rates, *map(format_untested_ratio, ratios)]


def format_untested_ratio(ratio: float | None) -> str:
    """Format a ratio in brackets, as one that was not tested."""
    return UNKNOWN if ratio is None else f"({format_ratio(ratio, MIN_RATIO_DIGITS)})"


def iterate_comparison_lines(found: CurveComparison) -> Iterator[str]:
    """Yield the verdict, and what to know with it; last of all what systems of different size yield
    for each accelerator and kilowatt.
    """
    yield f"verdict: {format_curve_verdict(found)}"
    if found.steps:
        yield UNTESTED_NOTE
    yield from iterate_comparison_remarks(found)


def format_curve_verdict(found: CurveComparison) -> str:
    """Format the verdict, with a word on systems that are not of one size."""
    if found.reasons or found.equal_size:
        return found.verdict
    sizes = "of different size" if found.equal_size is False else "of unknown size"
    return f"{found.verdict}, as whole systems {sizes}"


def iterate_comparison_remarks(found: CurveComparison) -> Iterator[str]:
    """Yield why two curves are not comparable, which is ahead where, and what differs."""
    yield from (f"not comparable: {each}" for each in found.reasons)
    for each in found.crossings:
        yield (
            f"{each.below} is ahead up to {format_figure(each.tps_per_user)} tokens/s per user,"
            f" {each.above} above"
        )
    yield from found.notes
