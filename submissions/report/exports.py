"""The report in other formats: Markdown for a summary in CI, Chrome's trace events for Perfetto."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from submissions.report.document import Chart, Document, Part, Section, Table

US_PER_UNIT: Final = {"s": 1e6, "minutes": 60e6}
"""Microseconds per unit of a chart's time axis. Source: Trace Event Format: `ts` is in
microseconds.
"""

MARKUP_ESCAPES: Final = str.maketrans(
    {letter: f"&#{ord(letter)};" for letter in "&<>|"}
    | {letter: f"\\{letter}" for letter in "\\`*_[]#"}
)
"""Characters that Markdown or HTML would interpret, with their escapes."""


def render_document_markdown(document: Document) -> str:
    """Return headlines, verdicts and findings as Markdown; charts are only in the page."""
    blocks = []
    if len(document.parts) > 1:
        blocks.append(f"# {encode_markdown_text(document.title)}")
    for part in document.parts:
        blocks += render_part_markdown(part)
    for section in document.sections:
        blocks += [
            f"## {encode_markdown_text(section.title)}",
            *(render_table_markdown(table) for table in section.tables if not table.folded),
            *(encode_markdown_text(note.text) for note in section.notes),
        ]
    return "\n\n".join([*blocks, *map(encode_markdown_text, document.legend)]) + "\n"


def render_part_markdown(part: Part) -> Iterator[str]:
    """Yield the blocks of one path."""
    yield f"## {encode_markdown_text(part.title)}: {encode_markdown_text(part.verdict)}"
    yield encode_markdown_text(part.summary)
    yield "Result not verified by MLCommons Association."
    if part.tiles:
        yield render_rows_markdown(
            ("result", "value", "uncertainty and quality"),
            [
                (
                    ", ".join(filter(None, (each.name, each.origin))),
                    f"{each.value} {each.unit}",
                    each.note,
                )
                for each in part.tiles
            ],
        )
    if part.facts:
        yield render_rows_markdown(("what", "value"), part.facts)
    for section in part.sections:
        if section.id == "findings":
            yield from (
                f"### {encode_markdown_text(table.title)}\n\n{render_table_markdown(table)}"
                for table in section.tables
            )


def render_table_markdown(table: Table) -> str:
    """Format one table of the document."""
    return render_rows_markdown(table.columns, table.rows)


def render_rows_markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Format a table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(map(encode_markdown_text, line))} |" for line in lines)


def encode_markdown_text(text: str) -> str:
    """Escape what Markdown or HTML would interpret as markup."""
    return " ".join(text.translate(MARKUP_ESCAPES).split())


def format_trace_events(document: Document) -> str:
    """Return every time chart as counters, with one process per path and section."""
    events: list[dict[str, Any]] = []
    for number, chart in enumerate(
        each
        for part in document.parts
        for section in part.sections
        for each in iterate_section_charts(section)
    ):
        unit = US_PER_UNIT.get(chart.x.unit)
        if unit is None:
            continue
        events.append(
            {
                "ph": "M",
                "pid": number,
                "name": "process_name",
                "args": {"name": f"{chart.title}: {chart.id}"},
            }
        )
        if chart.lines and chart.lines[0].points:
            last = max(x for line in chart.lines for x, _ in line.points)
            events.append(
                {
                    "ph": "X",
                    "pid": number,
                    "tid": 0,
                    "name": chart.title,
                    "ts": 0,
                    "dur": last * unit,
                }
            )
        for line in chart.lines:
            events += [
                {
                    "ph": "C",
                    "pid": number,
                    "name": line.name,
                    "ts": x * unit,
                    "args": {chart.y.unit or chart.y.name: y},
                }
                for x, y in line.points
            ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False) + "\n"


def iterate_section_charts(section: Section) -> Iterator[Chart]:
    """Yield the charts of a section and of its parts."""
    yield from section.charts
    for part in section.parts:
        yield from iterate_section_charts(part)
