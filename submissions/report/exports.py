"""The report in other formats: Markdown for a summary in CI, Chrome's trace events for Perfetto."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from submissions.report.document import Chart, Document, Part, Section, Table

US_PER_UNIT: Final = {"s": 1e6, "minutes": 60e6}
"""Microseconds per unit of a chart's time axis. Source: Trace Event Format: `ts` is in
microseconds.
"""

MARKUP: Final = str.maketrans(
    {letter: f"&#{ord(letter)};" for letter in "&<>|"}
    | {letter: f"\\{letter}" for letter in "\\`*_[]#"}
)
"""What Markdown or HTML would interpret, and its escape."""


def markdown(document: Document) -> str:
    """Return headlines, verdicts and findings; figures are only in the page."""
    blocks = [f"# {escaped(document.title)}"] if len(document.parts) > 1 else []
    for part in document.parts:
        blocks += part_lines(part)
    for section in document.sections:
        blocks += [
            f"## {escaped(section.title)}",
            *(of_table(table) for table in section.tables if not table.folded),
        ]
    return "\n\n".join([*blocks, *map(escaped, document.legend)]) + "\n"


def part_lines(part: Part) -> Iterator[str]:
    """Yield the blocks of one path."""
    yield f"## {escaped(part.title)}: {escaped(part.verdict)}"
    yield escaped(part.summary)
    yield "Result not verified by MLCommons Association."
    if part.tiles:
        yield rows(
            ("result", "value", "certainty and quality"),
            [(each.name, f"{each.value} {each.unit}", each.note) for each in part.tiles],
        )
    if part.facts:
        yield rows(("what", "value"), part.facts)
    for section in part.sections:
        if section.id == "findings":
            yield from (
                f"### {escaped(table.title)}\n\n{of_table(table)}" for table in section.tables
            )


def of_table(table: Table) -> str:
    """Format one table of the document."""
    return rows(table.columns, table.rows)


def rows(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Format a table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(map(escaped, line))} |" for line in lines)


def escaped(text: str) -> str:
    """Escape what Markdown or HTML would interpret as markup."""
    return " ".join(text.translate(MARKUP).split())


def trace(document: Document) -> str:
    """Return every time chart as counters, with one process per path and section."""
    events: list[dict[str, Any]] = []
    for number, chart in enumerate(
        each for part in document.parts for section in part.sections for each in charts(section)
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


def charts(section: Section) -> Iterator[Chart]:
    """Yield the charts of a section and of its parts."""
    yield from section.charts
    for part in section.parts:
        yield from charts(part)
