"""LoadGen's summary of a performance run before 1.0; that of an accuracy run has only the two
closing sentences.

MultiStream has three lists of percentiles: intervals between queries, latency per query, latency
per sample. Source of the
format: mlcommons/inference of branch r0.5, loadgen/loadgen.cc, PerformanceSummary::Log.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from compliance.logs.loadgen.legacy_detail import LENIENCY
from compliance.logs.loadgen.setting_names import plain
from compliance.logs.loadgen.summary import PARAMETERS, SIZE_LIMIT, Value
from compliance.logs.source_file import Kind, SourceFile, read_text, shown, wide

INTERVALS: Final = "Intervals between each IssueQuery"
PER_QUERY: Final = "Per-query latency"
PER_SAMPLE: Final = "Per-sample latency"
PARTS: Final = {INTERVALS: "interval ", PER_QUERY: "query ", PER_SAMPLE: ""}
"""Heading of a list of percentiles -> prefix of its names here."""
PAIR: Final = re.compile(r'"(\w+)" : ([^,\s]+)')
MARKS: Final = re.compile(r"encountered|Result is|MLPerf Results Summary")
"""Text by which a summary is recognised."""
REMARK: Final = re.compile(r"(No|\d+) (warnings?|errors?|ERRORS?) encountered")


@dataclass(slots=True)
class ServedSummary:
    """A parsed summary."""

    values: dict[str, Value] = field(default_factory=dict)
    """Results by name, spaces trimmed; MultiStream's lists as `interval 50.00 percentile`, `query
    50.00 percentile latency`.
    """
    parameters: dict[str, Value] = field(default_factory=dict)
    """Settings under the detail log's names."""
    errors: Value | None = None
    """Number of errors that LoadGen counted."""
    warnings: Value | None = None
    recommendations: list[Value] = field(default_factory=list)

    def number(self, name: str) -> float | None:
        """Return a result as a number, else None."""
        try:
            return float(self.values[name].text)
        except (KeyError, ValueError):
            return None

    def line(self, name: str) -> int | None:
        """Return the line of a result or setting."""
        value = self.values.get(name) or self.parameters.get(name)
        return value.line if value else None

    @property
    def of_performance(self) -> bool:
        """Whether it contains results."""
        return bool(self.values)


def read(source: SourceFile) -> ServedSummary:
    """Read a summary; a repeated name is a flaw, and the first counts."""
    source.leniency = LENIENCY
    summary = ServedSummary()
    text = read_text(source, SIZE_LIMIT)
    if wide(text.lstrip("\ufffd").encode("utf-8", "replace")):  # a byte order mark is not UTF-8
        source.add(Kind.RECORD, "UTF-16 text", "text of one byte a letter")
        return summary
    text = text.replace("\0", "")
    if text and not text.isspace() and not MARKS.search(text):
        source.add(Kind.RECORD, f"'{shown(text.encode())}'", "LoadGen's summary")
    prefix, parameters = "", False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        heading = next((heading for heading in PARTS if stripped.startswith(heading + ":")), None)
        if heading:
            prefix = PARTS[heading]
            for name, value in PAIR.findall(stripped):
                keep(source, summary.values, prefix + name, Value(value, number))
        elif stripped == PARAMETERS:
            parameters = True
        elif match := REMARK.match(stripped):
            remark(source, summary, match, number)
        elif stripped.startswith("* "):
            summary.recommendations.append(Value(stripped, number))
        elif ":" in stripped and not stripped.startswith("="):
            name, _, value = stripped.partition(":")
            part = summary.parameters if parameters else summary.values
            keep(
                source,
                part,
                plain(name) if parameters else prefix + named(name),
                Value(value.strip(), number),
            )
    return summary


def named(name: str) -> str:
    """Trim a result's name: drop units in brackets and spaces before the colon."""
    return " ".join(name.replace("(ns)", "").split())


def keep(source: SourceFile, part: dict[str, Value], name: str, value: Value) -> None:
    """Store one value."""
    told = part.setdefault(name, value)
    if told is not value:
        source.add(
            Kind.DUPLICATE,
            f"'{name}' occurs twice: {told.text} and {value.text}",
            "each name once",
            value.line,
        )


def remark(source: SourceFile, summary: ServedSummary, match: re.Match[str], number: int) -> None:
    """Store one of the two closing sentences."""
    count = Value("0" if match[1] == "No" else match[1], number)
    which = "warnings" if match[2].startswith("warning") else "errors"
    if getattr(summary, which) is not None:
        source.add(
            Kind.DUPLICATE,
            f"'{match[0]}' after another such sentence",
            "each closing sentence once",
            number,
        )
    else:
        setattr(summary, which, count)
