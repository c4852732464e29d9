"""Recompute top-1 accuracy from an accuracy log and ImageNet's validation labels.

The accuracy log does not state the type of its bytes: the reference accuracy script takes it as an
option, float32 (its default), int32 or int64, and reads the first number. Here each of these is
tried, with classes counted from 0 or from 1, and the one with the most correct answers counts: a
wrong type gives almost none. Source: mlcommons/inference,
v0.5/classification_and_detection/tools/accuracy-imagenet.py.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import eq
from pathlib import Path
from typing import Final

from compliance.logs.loadgen.accuracy_counts import AnswerCounts
from suite.files.untrusted_files import open_regular_file

LABELS_PATH: Final = Path("imagenet") / "val_map.txt"
"""Path below the truth folder: one line per validation image in order, with its name and its class
from 0.
"""
MAX_LABELS_BYTES: Final = 64 << 20
ANSWER_FORMATS: Final = ("<i", "<f", "<q", "<d", "<h", "<B")
CLASS_OFFSETS: Final = (0, 1, -1)
CLASS_COUNT: Final = 1001
"""ImageNet's 1,000 classes plus one for the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Top1:
    """The count of correct answers."""

    samples: int
    """Samples that were answered; if a sample has several answers, the first counts."""
    good: int
    format: str
    """Type of the answers' bytes, as a format of Python's struct module."""
    offset: int
    """Offset added to the classes in the truth."""
    size: int
    """Bytes of an answer."""
    strange: int | None = None
    """A sample whose answer is not a class."""

    @property
    def percent(self) -> float:
        """Return the correct answers in percent."""
        if self.samples:
            return 100 * self.good / self.samples
        return 0.0


@cache
def read_validation_labels(path: Path) -> Sequence[int]:
    """Read the classes of the validation images; ValueError or OSError if the file is invalid."""
    with open_regular_file(path) as stream:
        text = stream.read(MAX_LABELS_BYTES).decode("utf-8")
    return [int(line.split()[-1]) for line in text.splitlines() if line.strip()]


def count_correct_answers(tally: AnswerCounts, truth: Sequence[int]) -> Top1 | None:
    """Count correct answers; None if the answers are not single numbers, or name samples without
    truth.
    """
    if len(tally.sizes) != 1 or not tally.first or tally.highest >= len(truth):
        return None
    (size,) = tally.sizes
    known = [truth[sample] for sample in tally.first]
    shifted = {offset: [each + offset for each in known] for offset in CLASS_OFFSETS}
    found = []
    for code in (code for code in ANSWER_FORMATS if can_hold_number_format(code, size)):
        read = parse_first_numbers(tally.first.values(), code)
        right = {offset: sum(map(eq, read, classes)) for offset, classes in shifted.items()}
        found += [
            Top1(samples=tally.distinct, good=good, format=code, offset=offset, size=size)
            for offset, good in right.items()
        ]
    best = max(found, key=lambda top1: top1.good, default=None)
    if not best:
        return None
    return replace(best, strange=find_sample_without_class(tally, best.format))


def find_sample_without_class(tally: AnswerCounts, code: str) -> int | None:
    """Find a sample whose answer is not an integer among the classes, counted from 0 or from 1."""
    found = zip(tally.first, parse_first_numbers(tally.first.values(), code), strict=True)
    return next(
        (
            sample
            for sample, value in found
            if not -1 <= value <= CLASS_COUNT or value != int(value)
        ),
        None,
    )


def can_hold_number_format(code: str, size: int) -> bool:
    """Return whether answers of this size can hold numbers of a format: as the whole answer, or as
    the first of several 4- or 8-byte numbers.
    """
    width = struct.calcsize(code)
    return width == size or (width >= 4 and size % width == 0)


def parse_first_numbers(answers: Iterable[bytes], code: str) -> Sequence[float]:
    """Read the first number of each answer."""
    width = struct.calcsize(code)
    first = b"".join([answer[:width] for answer in answers])
    return struct.unpack(f"<{len(first) // width}{code[1:]}", first)
