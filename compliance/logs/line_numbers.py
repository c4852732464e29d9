"""Count the line numbers of a file on demand: most logs are valid and need none."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from suite.files.untrusted_files import open_regular_file

MAX_COUNTED_STEP_BYTES: Final = 1 << 20


@dataclass(slots=True, eq=False)
class LineNumbers:
    """Maps records of one file to line numbers.

    A record's order is the offset of the block that it was read in, plus its index in that block:
    it ascends through the file.
    """

    path: Path
    mark: re.Pattern[bytes] | None = None
    """Matches a record's start through to the end of its line."""
    blocks: list[int] = field(default_factory=list)
    """Offsets of the blocks with records, ascending; if empty, a record's order is its offset."""
    offsets: list[int] = field(default_factory=lambda: [0])
    """Offsets whose line is known, ascending ..."""
    numbers: list[int] = field(default_factory=lambda: [1])
    """... and their lines."""

    def find_record_line(self, order: int) -> int:
        """Return the line of a record."""
        try:
            return self.find_line_at(self.find_record_offset(order))
        except (OSError, ValueError):
            return self.find_line_at(order)

    def find_record_offset(self, order: int) -> int:
        """Look up a record's offset; OSError if the file is no longer readable."""
        block = bisect_right(self.blocks, order) - 1
        if block < 0 or self.mark is None:
            return order
        start = self.blocks[block]
        if block + 1 < len(self.blocks):
            end = self.blocks[block + 1]
        else:
            end = -1
        with open_regular_file(self.path) as stream:
            stream.seek(start)
            text = stream.read(end - start if end > 0 else -1)
        match = next(islice(self.mark.finditer(text), order - start, None), None)
        if match:
            return start + match.start()
        return start

    def find_line_at(self, offset: int) -> int:
        """Return the line, from 1, of a byte offset; if the file is no longer readable, the last
        known line before it.
        """
        known = bisect_right(self.offsets, offset) - 1
        try:
            return self.count_lines(self.offsets[known], self.numbers[known], offset)
        except (OSError, ValueError):
            return self.numbers[known]

    def count_lines(self, start: int, number: int, offset: int) -> int:
        """Count lines from a known offset, and remember each step beyond the last."""
        with open_regular_file(self.path) as stream:
            stream.seek(start)
            while start < offset and (
                piece := stream.read(min(MAX_COUNTED_STEP_BYTES, offset - start))
            ):
                start += len(piece)
                number += piece.count(b"\n")
                if start > self.offsets[-1]:
                    self.offsets.append(start)
                    self.numbers.append(number)
        return number
