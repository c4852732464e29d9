"""Parse the line that the run script appends to a log:
`RESULT,<benchmark>,<seed>,<seconds>,<user>,<date of its start>`.

Source of the format: mlcommons/training, run_and_time.sh of several benchmarks; it is not a record,
and occurs in logs of both dialects.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from compliance.logs.line_numbers import LineNumbers
from compliance.logs.source_file import SourceFile

RESULT_MARK: Final = b"RESULT,"
RESULT_LINE_PATTERN: Final = re.compile(
    RESULT_MARK + rb"\w*,[^,\n]*,(\d{1,9}),[^,\n]*,(\d+-\d+-\d+ \d+:\d+:\d+ [AP]M)?"
)


class ResultLine(NamedTuple):
    """One RESULT line."""

    offset: int
    lines: LineNumbers
    seconds: int
    """Time from the script's start to its end."""
    began: str | None
    """The script's start, in the machine's local time."""

    @property
    def line(self) -> int:
        """Return the line number, from 1; counted on demand."""
        return self.lines.find_line_at(self.offset)


def find_result_lines(source: SourceFile) -> Iterator[ResultLine]:
    """Yield the result lines at the end of a parsed log."""
    start, lines = source.size - len(source.tail), LineNumbers(source.path)
    if RESULT_MARK not in source.tail:
        return
    for match in RESULT_LINE_PATTERN.finditer(source.tail):
        yield ResultLine(
            start + match.start(), lines, int(match[1]), match[2].decode() if match[2] else None
        )
