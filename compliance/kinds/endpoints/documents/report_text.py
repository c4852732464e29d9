"""Read `report.txt`, the summary of the Endpoints client as text, with the digits that it prints.

Source: mlcommons/endpoints, metrics, Report.display.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compliance.logs.source_file import SourceFile, read_document_bytes

MAX_REPORT_BYTES: Final = 1 << 20
MAX_FIGURES: Final = 1000
FIGURE_PATTERN: Final = re.compile(
    r"\s*([A-Za-z0-9. ]{1,40}):[ \t]+(-?[0-9]{1,25})(\.[0-9]{1,12})?[ \t]*(ms|tokens|seconds)?\s*"
)
"""Name, whole part, digits behind the point, and unit."""
TITLE_PATTERN: Final = re.compile(r"([A-Z][A-Za-z ]{1,40}):\s*")
PART_PATTERN: Final = re.compile(r"\s+([A-Z][A-Za-z -]{1,40})(?: \(.*\))?:\s*")
SERIES_TITLES: Final[Mapping[str, str]] = {
    "TTFT": "ttft",
    "TPOT": "tpot",
    "Latency": "latency",
    "Input sequence lengths": "input_sequence_lengths",
    "Output sequence lengths": "output_sequence_lengths",
}
"""Title of a section -> series of the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFigure:
    """One figure of the text."""

    line: int
    series: str
    """Series of the summary; empty for a figure of the whole run."""
    part: str
    """Heading within the series, `Percentiles` for one; empty for its own statistics."""
    name: str
    value: float
    """In the unit that is printed."""
    digits: int
    """Digits behind the point, to which it was rounded."""


def read_report_text(source: SourceFile) -> Sequence[StatedFigure]:
    """Read the figures of a report; lines that are none are left out."""
    text = read_document_bytes(source, MAX_REPORT_BYTES)
    if text is None:
        return ()
    return parse_report_text(text.decode("utf-8", "replace"))


def parse_report_text(text: str) -> Sequence[StatedFigure]:
    """Parse the figures of a report: those of the run begin a line, those of a series follow its
    title, indented.
    """
    found: list[StatedFigure] = []
    series, part = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if title := TITLE_PATTERN.fullmatch(line):
            series, part = SERIES_TITLES.get(title[1], ""), ""
        elif heading := PART_PATTERN.fullmatch(line):
            part = heading[1]
        elif (figure := FIGURE_PATTERN.fullmatch(line)) and (series or line[0] != " "):
            behind, of_run = figure[3] or "", line[0] != " "
            found.append(
                StatedFigure(
                    line=number,
                    series="" if of_run else series,
                    part="" if of_run else part,
                    name=figure[1].strip(),
                    value=float(figure[2] + behind),
                    digits=max(0, len(behind) - 1),
                )
            )
    return found[:MAX_FIGURES]
