"""Parses lists of sample indices in LoadGen's detail log, up to millions per line, in little
memory.
"""

from collections.abc import Iterator, Sequence
from typing import Final

SAMPLE_LIST_PIECE_BYTES: Final = 1 << 20
SAMPLE_INDEX_LIMIT: Final = 1 << 26
"""Limit of sample indices; a higher number is not a sample."""


def parse_sample_marks(text: bytes) -> tuple[bytearray, int]:
    """Return one byte per sample up to the highest, 1 if it is in the list, and the list's length;
    ValueError if it is not a list of samples.
    """
    marks, count = bytearray(), 0
    for numbers in iterate_sample_batches(text):
        count += len(numbers)
        lowest, highest = min(numbers), max(numbers)
        if lowest < 0 or highest >= SAMPLE_INDEX_LIMIT:
            raise ValueError(f"sample {highest if lowest >= 0 else lowest}")
        marks.extend(bytes(max(0, highest + 1 - len(marks))))
        for sample in numbers:
            marks[sample] = 1
    return marks, count


def merge_sample_marks(earlier: bytearray, marks: bytearray) -> bytearray:
    """Merge two sets of samples."""
    if len(earlier) >= len(marks):
        longer, shorter = earlier, marks
    else:
        longer, shorter = marks, earlier
    joined = int.from_bytes(longer, "little") | int.from_bytes(shorter, "little")
    return bytearray(joined.to_bytes(len(longer), "little"))


def iterate_sample_batches(text: bytes) -> Iterator[Sequence[int]]:
    """Yield the numbers of a list up to its bracket, in batches; ValueError if one is not a
    number.
    """
    end = text.find(b"]")
    if end < 1:
        raise ValueError("no closing bracket" if end else "nothing")
    at = 0
    while at < end:
        if at + SAMPLE_LIST_PIECE_BYTES < end:
            stop = text.rfind(b",", at, min(at + SAMPLE_LIST_PIECE_BYTES, end))
        else:
            stop = end
        if stop < 0:
            raise ValueError("no comma")
        yield [int(each) for each in text[at:stop].split(b",")]
        at = stop + 1
