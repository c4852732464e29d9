"""Parse LoadGen's summary of a performance run before 1.0; the summary of an accuracy run has only
the two closing sentences.

MultiStream has three lists of percentiles: intervals between queries, latency per query, latency
per sample. Source of the format: mlcommons/inference of branch r0.5, loadgen/loadgen.cc,
PerformanceSummary::Log.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from compliance.kinds.inference_text.logs.legacy_detail import LEGACY_LOADGEN_LENIENCY
from compliance.logs.loadgen.setting_names import normalise_setting_name
from compliance.logs.loadgen.summary import (
    MAX_SUMMARY_BYTES,
    PARAMETERS_HEADING,
    LogValue,
    SummaryValues,
)
from compliance.logs.source_file import (
    ParseErrorKind,
    SourceFile,
    format_excerpt,
    is_utf16_text,
    read_source_text,
)

INTERVALS_HEADING: Final = "Intervals between each IssueQuery"
QUERY_LATENCY_HEADING: Final = "Per-query latency"
SAMPLE_LATENCY_HEADING: Final = "Per-sample latency"
PERCENTILE_NAME_PREFIXES: Final = {
    INTERVALS_HEADING: "interval ",
    QUERY_LATENCY_HEADING: "query ",
    SAMPLE_LATENCY_HEADING: "",
}
"""Heading of a list of percentiles -> prefix of its names here."""
PERCENTILE_PAIR_PATTERN: Final = re.compile(r'"(\w+)" : ([^,\s]+)')
LEGACY_SUMMARY_PATTERN: Final = re.compile(r"encountered|Result is|MLPerf Results Summary")
"""Text by which a summary is recognised."""
CLOSING_REMARK_PATTERN: Final = re.compile(r"(No|\d+) (warnings?|errors?|ERRORS?) encountered")


@dataclass(slots=True)
class LegacySummary(SummaryValues):
    """A parsed summary before LoadGen 1.0; MultiStream's lists of values are named `interval 50.00
    percentile` and `query 50.00 percentile latency`.
    """

    errors: LogValue | None = None
    """Number of errors that LoadGen counted."""
    warnings: LogValue | None = None
    recommendations: list[LogValue] = field(default_factory=list)

    def find_number(self, name: str) -> float | None:
        """Return a result as a number, else None."""
        try:
            return float(self.values[name].text)
        except (KeyError, ValueError):
            return None

    @property
    def has_results(self) -> bool:
        """Return whether it contains results."""
        return bool(self.values)


def read_legacy_summary(source: SourceFile) -> LegacySummary:
    """Read a summary; a repeated name is a parse error, and the first counts."""
    source.leniency = LEGACY_LOADGEN_LENIENCY
    summary = LegacySummary()
    text = read_source_text(source, MAX_SUMMARY_BYTES)
    # a byte order mark is not UTF-8
    if is_utf16_text(text.lstrip("\ufffd").encode("utf-8", "replace")):
        source.add_parse_error(
            ParseErrorKind.RECORD, "UTF-16 text", "text with one byte per character"
        )
        return summary
    text = text.replace("\0", "")
    if text and not text.isspace() and not LEGACY_SUMMARY_PATTERN.search(text):
        source.add_parse_error(
            ParseErrorKind.RECORD, f"'{format_excerpt(text.encode())}'", "LoadGen's summary"
        )
    prefix, parameters = "", False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        heading = next(
            (heading for heading in PERCENTILE_NAME_PREFIXES if stripped.startswith(heading + ":")),
            None,
        )
        if heading:
            prefix = PERCENTILE_NAME_PREFIXES[heading]
            for name, value in PERCENTILE_PAIR_PATTERN.findall(stripped):
                store_legacy_value(source, summary.values, prefix + name, LogValue(value, number))
        elif stripped == PARAMETERS_HEADING:
            parameters = True
        elif match := CLOSING_REMARK_PATTERN.match(stripped):
            store_closing_remark(source, summary, match, number)
        elif stripped.startswith("* "):
            summary.recommendations.append(LogValue(stripped, number))
        elif ":" in stripped and not stripped.startswith("="):
            name, _, value = stripped.partition(":")
            if parameters:
                part = summary.parameters
            else:
                part = summary.values
            store_legacy_value(
                source,
                part,
                normalise_setting_name(name) if parameters else prefix + trim_result_name(name),
                LogValue(value.strip(), number),
            )
    return summary


def trim_result_name(name: str) -> str:
    """Trim a result's name: drop units in brackets and spaces before the colon."""
    return " ".join(name.replace("(ns)", "").split())


def store_legacy_value(
    source: SourceFile, part: dict[str, LogValue], name: str, value: LogValue
) -> None:
    first_value = part.setdefault(name, value)
    if first_value is not value:
        source.add_parse_error(
            ParseErrorKind.DUPLICATE,
            f"'{name}' occurs twice: {first_value.text} and {value.text}",
            "each name once",
            value.line,
        )


def store_closing_remark(
    source: SourceFile, summary: LegacySummary, match: re.Match[str], number: int
) -> None:
    """Store one of the two closing sentences."""
    count = LogValue("0" if match[1] == "No" else match[1], number)
    which = "errors"
    if match[2].startswith("warning"):
        which = "warnings"
    if getattr(summary, which) is not None:
        source.add_parse_error(
            ParseErrorKind.DUPLICATE,
            f"'{match[0]}' after another such sentence",
            "each closing sentence once",
            number,
        )
    else:
        setattr(summary, which, count)
