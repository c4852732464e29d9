"""Line numbers of a file, counted when somebody asks: most logs are good, and nobody does."""

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from compliance.logs.source import opened

STEP: Final = 1 << 20


@dataclass(slots=True, eq=False)
class Lines:
    """The lines of one file."""

    path: Path
    offsets: list[int] = field(default_factory=lambda: [0])
    """Places whose line is known, ascending ..."""
    numbers: list[int] = field(default_factory=lambda: [1])
    """... and their lines."""

    def at(self, offset: int) -> int:
        """Give the line, from 1, that a byte of the file stands on; of a file that can be read no more, the last that is known before it."""
        known = bisect_right(self.offsets, offset) - 1
        try:
            return self.count(self.offsets[known], self.numbers[known], offset)
        except (OSError, ValueError):
            return self.numbers[known]

    def count(self, start: int, number: int, offset: int) -> int:
        """Count on from a place that is known, and note every step behind the last."""
        with opened(self.path) as stream:
            stream.seek(start)
            while start < offset and (piece := stream.read(min(STEP, offset - start))):
                start += len(piece)
                number += piece.count(b"\n")
                if start > self.offsets[-1]:
                    self.offsets.append(start)
                    self.numbers.append(number)
        return number
