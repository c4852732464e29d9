"""What the script around a run writes at the end of its log: `RESULT,<benchmark>,<seed>,<seconds>,<user>,<date of its start>`.

Source of the form: mlcommons/training, run_and_time.sh of several benchmarks; it is no record, and stands in logs of both dialects.
"""

import re
from collections.abc import Iterator
from os import SEEK_END
from typing import Final, NamedTuple

from compliance.logs.lines import Lines
from compliance.logs.source import SourceFile, opened

LINE: Final = re.compile(rb"RESULT,\w*,[^,\n]*,(\d{1,9}),[^,\n]*,(\d+-\d+-\d+ \d+:\d+:\d+ [AP]M)?")
TAIL: Final = 1 << 13
"""Bytes at a log's end in which such lines stand; in accepted logs within 1,000."""


class Result(NamedTuple):
    """One such line."""

    offset: int
    lines: Lines
    seconds: int
    """From the script's start to its end."""
    began: str | None
    """When the script began, in the machine's local time."""

    @property
    def line(self) -> int:
        """The line that it stands on, from 1; counted only when somebody asks."""
        return self.lines.at(self.offset)


def results(source: SourceFile) -> Iterator[Result]:
    """Yield the lines; a file that cannot be read has none, and whoever reads its records says so."""
    try:
        with opened(source.path) as stream:
            start = max(stream.seek(0, SEEK_END) - TAIL, 0)
            stream.seek(start)
            tail = stream.read(TAIL)
    except (OSError, ValueError):
        return
    lines = Lines(source.path)
    for match in LINE.finditer(tail):
        yield Result(start + match.start(), lines, int(match[1]), match[2].decode() if match[2] else None)
