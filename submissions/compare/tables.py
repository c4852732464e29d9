"""Comparisons as text for a terminal or a pipe, and in Markdown."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape as plain_html
from itertools import takewhile
from typing import Final

import click

from submissions.cells import format_known_interval, format_known_value, format_metric_name
from submissions.compare.comparison import ComparedResult, Comparison
from submissions.compare.conclusions import list_conclusions, name_result_kind
from submissions.compare.scaling import Scaling
from submissions.compare.table_rows import (
    COMPARISON_TABLE,
    SCALING_TABLE,
    SHARED_REASONS_NOTE,
    ShownResult,
    build_known_figure,
    build_mean_figure,
    collect_told_notes,
    describe_equal_systems,
    find_common_notes,
    find_shared_remarks,
    format_ratio_cell,
    format_shared_remarks,
    has_differing_systems,
    iterate_count_cells,
    iterate_result_remarks,
    list_shown_results,
    list_shown_steps,
    select_present,
)
from submissions.labels import PathLabels, assign_letters
from submissions.tables import print_wrapped_line
from suite.columns import UNKNOWN_CELL, Column, Table
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_plain_number
from suite.measurement.metrics import is_higher_better

MARKDOWN_SPECIAL_CHARACTERS: Final = re.compile(r"[\\`*_\[\]|~]")
"""Characters with a meaning in Markdown."""
NAME_SEPARATOR: Final = "-"
"""Between the parts of a system's name."""
LEFT_OUT: Final = "\u2026"
"""Stands for the parts of a name that all systems share."""


def format_mean_cell(row: ShownResult) -> str:
    """Format the geometric mean of a result's runs."""
    figure = build_mean_figure(row.found)
    if figure:
        return format_known_value(figure)
    return UNKNOWN_CELL


def format_interval_cell(row: ShownResult) -> str:
    """Format the interval of that mean."""
    figure = build_mean_figure(row.found)
    return (figure and format_known_interval(figure)) or UNKNOWN_CELL


def format_derived_cell(row: ShownResult) -> str:
    """Format the figure per accelerator, dollar or watt."""
    derived = row.found.derived
    if derived is None:
        return UNKNOWN_CELL
    return f"{format_plain_number(derived.value, 6)} {derived.unit}"


def format_machine_cell(row: ShownResult) -> str:
    """Format the machine of a result."""
    if row.found.absent:
        return UNKNOWN_CELL
    return str(row.found.result.machine)


def has_several_machines(rows: Sequence[ShownResult]) -> bool:
    """Return whether the rows are of machines that differ in what is told of them."""
    return len({row.found.result.machine for row in select_present(rows)}) > 1


def format_differing_name(row: ShownResult) -> str:
    """Format a system's name without the parts that all systems of this kind share."""
    if row.found.absent:
        return UNKNOWN_CELL
    systems = {each.result.system for each in row.comparison.results if not each.absent}
    return shorten_equal_parts(row.found.result.system, systems)


def shorten_equal_parts(name: str, names: Collection[str]) -> str:
    """Leave out the parts at both ends of a name that all names share."""
    parts = [each.split(NAME_SEPARATOR) for each in names]
    own = name.split(NAME_SEPARATOR)
    head = count_equal_parts(parts)
    rest = [each[head:] for each in parts]
    tail = min(count_equal_parts([each[::-1] for each in rest]), min(map(len, rest)))
    kept = own[head : len(own) - tail]
    if not kept or not head + tail:
        return name
    return NAME_SEPARATOR.join(
        [*([LEFT_OUT] if head else []), *kept, *([LEFT_OUT] if tail else [])]
    )


def count_equal_parts(names: Sequence[Sequence[str]]) -> int:
    """Count the parts at the beginning that all names share."""
    columns = zip(*names, strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


DETAIL_TABLE: Final[Table[ShownResult]] = Table(
    columns=(
        Column("of", lambda row: row.found.label),
        Column("result", lambda row: format_detail_value(row.found), numeric=True),
        Column("geometric mean", format_mean_cell, numeric=True, optional=True),
        Column("interval", format_interval_cell, numeric=True, optional=True),
        Column("n", lambda row: format_run_count(row.found), numeric=True),
        Column("derived", format_derived_cell, optional=True),
        Column("notes", lambda row: ", ".join(iterate_count_cells(row.found)), optional=True),
        Column("disturbed", lambda row: ", ".join(row.found.result.noise), optional=True),
        Column("on", format_machine_cell, when=has_several_machines),
        Column("system", format_differing_name, when=has_differing_systems),
    )
)
"""The results of one kind: what each ratio is made of, and where the systems differ."""
REFERENCE_TABLE: Final[Table[ShownResult]] = Table(
    columns=(
        Column("published", lambda row: row.found.label),
        Column("result", lambda row: format_detail_value(row.found), numeric=True),
        Column("n", lambda row: format_run_count(row.found), numeric=True),
        Column("times as fast", lambda row: format_ratio_cell(row.found), optional=True),
        Column("derived", format_derived_cell, optional=True),
        Column("notes", lambda row: ", ".join(iterate_count_cells(row.found)), optional=True),
        Column("on", format_machine_cell),
        Column("round", lambda row: row.found.result.round),
        Column("differs", lambda row: "; ".join(iterate_own_remarks(row)), optional=True),
    )
)
"""Published rows beside them."""


def format_detail_value(found: ComparedResult) -> str:
    """Format the value of a result; a dash if its path has none."""
    if found.absent:
        return UNKNOWN_CELL
    return format_known_value(build_known_figure(found))


def format_run_count(found: ComparedResult) -> str:
    """Format the number of runs; a dash if its path has no result, or no runs are known."""
    return str(len(found.result.runs) or UNKNOWN_CELL)


def print_comparisons(
    comparisons: Iterable[Comparison], labels: PathLabels | None = None, confidence: float = 0.95
) -> None:
    """Print what is concluded of each result, a line each; then which path has which name and what
    differs, and then what each ratio is made of.
    """
    comparisons = list(comparisons)
    if labels is None:
        paths = [each.path for comparison in comparisons for each in comparison.results]
        labels = PathLabels(letters=assign_letters(paths))
    for line in list_conclusions(comparisons, confidence):
        print_wrapped_line(line)
    click.echo()
    for line in iterate_heading_lines(comparisons, labels):
        print_wrapped_line(line)
    told = collect_told_notes(comparisons)
    for each in comparisons:
        click.echo()
        print_details(each, told)


def iterate_heading_lines(found: Sequence[Comparison], labels: PathLabels) -> Iterator[str]:
    """Yield which path has which name, the system if it is one, and the differences that all
    results of a path have.
    """
    results = [each for comparison in found for each in comparison.results]
    paths = {each.path for each in results}
    yield from (f"{labels.name_path(path)}: {path}" for path in labels.letters if path in paths)
    if systems := describe_equal_systems(found):
        yield f"system: {systems}"
    baselines = {each.label for each in results if each.baseline}
    beside = f" from {next(iter(baselines))}" if len(baselines) == 1 else ""
    for path, notes in find_common_notes(found).items():
        for where, texts in (("", notes.of_all), (" in all scenarios", notes.of_scenarios)):
            if texts:
                yield f"{labels.name_path(path)} differs{beside}{where}: {'; '.join(texts)}"


def print_details(found: Comparison, told: Mapping[str, Collection[str]]) -> None:
    """Print what the ratios of one kind are made of, and what is to be known of each result."""
    rows = list_shown_results(found, told)
    own, published = rows[: len(found.results)], rows[len(found.results) :]
    print_wrapped_line(f"{name_result_kind(found)}: {describe_figure(found)}")
    for group in find_shared_remarks(found, told):
        print_wrapped_line(f"  {group.rows}: {'; '.join(group.remarks)}")
    print_indented_rows(DETAIL_TABLE, select_present(own))
    for row in own:
        for line in iterate_own_remarks(row):
            print_wrapped_line(f"  {row.found.label}: {line}")
    if published:
        print_indented_rows(REFERENCE_TABLE, published)


def print_indented_rows(table: Table[ShownResult], rows: Sequence[ShownResult]) -> None:
    """Print rows under their headings."""
    click.echo("\n".join(f"  {line}" for line in table.list_aligned_lines(rows)))


def iterate_own_remarks(row: ShownResult) -> Iterator[str]:
    """Yield what neither the conclusion, the table nor a line about several rows says."""
    if row.found.absent:
        return
    found = replace(row.found, why="", derived=None, result=replace(row.found.result, noise=()))
    for line in iterate_result_remarks(found, found.result.unit, row.shared):
        if line != SHARED_REASONS_NOTE and not line.endswith(f"and {SHARED_REASONS_NOTE}"):
            yield line


def describe_figure(found: Comparison) -> str:
    """Say what was measured, and which direction is better."""
    first = next(each.result for each in found.results if not each.absent)
    better = "more" if is_higher_better(found.metric) else "less"
    return f"{format_metric_name(first)}, {better} is better"


def print_scalings(scalings: Iterable[Scaling]) -> None:
    """Print one line per number of accelerators."""
    for scaling in scalings:
        click.echo()
        click.echo("\n".join(SCALING_TABLE.list_aligned_lines(list_shown_steps(scaling))))


def render_comparison_tables(
    comparisons: Iterable[Comparison], scalings: Iterable[Scaling]
) -> list[str]:
    """Return the tables in Markdown, after what all rows of a comparison share."""
    comparisons = list(comparisons)
    told = collect_told_notes(comparisons)
    shared = (line for each in comparisons for line in format_shared_remarks(each, told))
    rows = [row for each in comparisons for row in list_shown_results(each, told)]
    return [
        *map(encode_markdown_cell, shared),
        render_markdown_table(COMPARISON_TABLE.list_told_rows(rows)),
        *(
            render_markdown_table(SCALING_TABLE.list_told_rows(list_shown_steps(each)))
            for each in scalings
        ),
    ]


def render_conclusions(
    found: Sequence[Comparison], labels: PathLabels, confidence: float
) -> list[str]:
    """Return what is concluded and the names of the paths as lists in Markdown."""
    lists = (list_conclusions(found, confidence), [*iterate_heading_lines(found, labels)])
    return ["\n".join(f"- {encode_markdown_cell(line)}" for line in lines) for lines in lists]


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
