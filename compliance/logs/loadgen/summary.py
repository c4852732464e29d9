"""LoadGen's summary: `name : value` lines in three parts, then its statements about warnings and
errors.

Source of the format: mlcommons/inference, loadgen/results.cc, PerformanceSummary::LogSummary, of
LoadGen 6.0.17.
"""

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from compliance.logs.source_file import ParseErrorKind, SourceFile, read_source_text

PARAMETERS_HEADING: Final = "Test Parameters Used"
MAX_SUMMARY_BYTES: Final = 1 << 20
EARLY_STOPPING_HEADING: Final = "Early Stopping Result:"
EARLY_STOPPING_HEADINGS: Final = tuple(
    f"{of}{EARLY_STOPPING_HEADING}" for of in ("", "TTFT ", "TPOT ")
)
"""Of latencies, or of first and further tokens."""
TWICE_PRINTED_NAME: Final = "Completed tokens per second"
"""LoadGen prints it as Server's result, and with the statistics of tokens."""
EQUAL_ISSUE_NOTE: Final = frozenset(
    {
        "WARNING: sample_concatenate_permutation was set to true.",
        "Generated samples per query might be different as the one in the setting.",
        "Check the generated_samples_per_query line in the detailed log for the real",
        "samples_per_query value",
    }
)
"""Lines behind the parameters of a run that issues each sample equally often."""
EARLY_EXIT_REMARK: Final = "See the detailed log for why this may have occurred."
"""Second line of LoadGen's advice about too few queries."""
SUMMARY_HEADINGS: Final = frozenset(
    {
        "MLPerf Results Summary",
        "Additional Stats",
        "Per-query latency:",
        "Recommendations:",
        *EARLY_STOPPING_HEADINGS,
        PARAMETERS_HEADING,
    }
)
RULER_CHARACTER: Final = "="
PRINTED_NUMBER_PATTERN: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""Numbers as C++ prints them: `float` would accept digits of every script, and underscores between
them.
"""


class LogValue(NamedTuple):
    """A value of the summary, as text, and its line."""

    text: str
    line: int


@dataclass(slots=True)
class SummaryValues:
    """The values of a summary of any era."""

    values: dict[str, LogValue] = field(default_factory=dict)
    """Results and statistics by name, spaces trimmed."""
    parameters: dict[str, LogValue] = field(default_factory=dict)
    """Test parameters by name, without units in brackets."""

    def find_text(self, name: str) -> str | None:
        """Return a result as text."""
        value = self.values.get(name)
        if value:
            return value.text
        return None

    def find_line(self, name: str) -> int | None:
        """Return the line of a result or parameter."""
        value = self.values.get(name) or self.parameters.get(name)
        if value:
            return value.line
        return None


@dataclass(slots=True)
class LoadGenSummary(SummaryValues):
    """A parsed summary since LoadGen 1.0."""

    remarks: dict[str, int] = field(default_factory=dict)
    """Each of the two closing sentences -> its line."""
    steps: list[str] = field(default_factory=list)
    """The lines of LoadGen's early-stopping result and of its recommendations."""
    notes: dict[str, int] = field(default_factory=dict)
    """Each line of the note on equal issue counts -> its line."""
    unrecognised_lines: dict[str, int] = field(default_factory=dict)
    """Lines that match no known form -> line number of the first occurrence."""


def read_loadgen_summary(source: SourceFile) -> LoadGenSummary:
    """Read a summary; a repeated name is a parse error, and the first counts."""
    summary = LoadGenSummary()
    text = read_source_text(source, MAX_SUMMARY_BYTES)
    part, stopping = summary.values, False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        stopping = stripped in EARLY_STOPPING_HEADINGS or (stopping and stripped != "")
        if stripped in SUMMARY_HEADINGS:
            if stripped == PARAMETERS_HEADING:
                part = summary.parameters
        elif stripped in EQUAL_ISSUE_NOTE:
            summary.notes.setdefault(stripped, number)
        elif (
            stripped.endswith("encountered during test.")
            or "encountered. See detailed log" in stripped
        ):
            if summary.remarks.setdefault(stripped, number) != number:
                source.add_parse_error(
                    ParseErrorKind.DUPLICATE,
                    f"'{stripped}' occurs twice",
                    "each closing sentence once",
                    number,
                )
        elif stopping or stripped.startswith("* ") or stripped == EARLY_EXIT_REMARK:
            summary.steps.append(stripped.removeprefix("* "))
        elif ":" in stripped:
            store_summary_line(source, part, stripped, number)
        elif stripped.strip(RULER_CHARACTER):
            summary.unrecognised_lines.setdefault(stripped, number)
    if text and not text.endswith("\n"):
        source.add_parse_error(
            ParseErrorKind.CUT,
            "an incomplete last line",
            "a newline at the end of the file",
            text.count("\n") + 1,
        )
    return summary


def store_summary_line(
    source: SourceFile, part: dict[str, LogValue], line: str, number: int
) -> None:
    """Store one `name : value` line."""
    name, _, text = line.partition(":")
    name = " ".join(name.replace("(ns)", "").replace("(ms)", "").split())
    value = LogValue(text.strip(), number)
    first = part.setdefault(name, value)
    if first is not value and not (name == TWICE_PRINTED_NAME and first.text == value.text):
        source.add_parse_error(
            ParseErrorKind.DUPLICATE,
            f"'{name}' occurs twice: {part[name].text} and {value.text}",
            "each name once",
            number,
        )


def parse_printed_number(text: str) -> float | None:
    """Convert a printed number; None if it is not one."""
    if PRINTED_NUMBER_PATTERN.fullmatch(text):
        return float(text)
    return None
