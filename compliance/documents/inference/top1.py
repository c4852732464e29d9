"""Recomputes top-1 accuracy from an accuracy log and ImageNet's validation labels.

The accuracy log does not say what its bytes are: the accuracy script of the reference is told, as float32 (its default),
int32 or int64, and takes the first number. Here each of those is tried, with classes counted from 0 or from 1, and the
one that gives most right answers counts: a wrong reading gives next to none. Source: mlcommons/inference,
v0.5/classification_and_detection/tools/accuracy-imagenet.py.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from compliance.logs.loadgen.accuracy_counts import Tally
from suite.files.untrusted_files import opened

LABELS: Final = Path("imagenet") / "val_map.txt"
"""Below the folder of truths: one line for each validation image in order, its name and its class from 0."""
LABELS_LIMIT: Final = 64 << 20
FORMATS: Final = ("<i", "<f", "<q", "<d", "<h", "<B")
OFFSETS: Final = (0, 1, -1)
CLASSES: Final = 1001
"""ImageNet's thousand, and one for the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Top1:
    """Right answers, counted."""

    samples: int
    """Samples that were answered; of several answers to one the first counts."""
    good: int
    format: str
    """What the answers' bytes are, as Python's struct module spells it."""
    offset: int
    """Added to the truth's classes."""
    size: int
    """Bytes of an answer."""
    strange: int | None = None
    """A sample whose answer is no class at all."""

    @property
    def percent(self) -> float:
        """Right answers in percent."""
        return 100 * self.good / self.samples if self.samples else 0.0


@cache
def labels(path: Path) -> Sequence[int]:
    """Read the classes of the validation images; ValueError or OSError if the file is not as it should be."""
    with opened(path) as stream:
        text = stream.read(LABELS_LIMIT).decode("utf-8")
    return [int(line.split()[-1]) for line in text.splitlines() if line.strip()]


def count(tally: Tally, truth: Sequence[int]) -> Top1 | None:
    """Count right answers; None if the answers are no single numbers, or name samples that have no truth."""
    if len(tally.sizes) != 1 or not tally.first or tally.highest >= len(truth):
        return None
    (size,) = tally.sizes
    readings = [(code, offset) for code in FORMATS if fits(code, size) for offset in OFFSETS]
    found = [Top1(samples=tally.distinct, good=right(tally, truth, code, offset), format=code, offset=offset, size=size) for code, offset in readings]
    best = max(found, key=lambda top1: top1.good, default=None)
    return replace(best, strange=strange(tally, best.format)) if best else None


def strange(tally: Tally, code: str) -> int | None:
    """Find a sample whose answer is no whole number among the classes, which are counted from 0 or from 1."""
    found = zip(tally.first, values(tally.first.values(), code), strict=True)
    return next((sample for sample, value in found if not -1 <= value <= CLASSES or value != int(value)), None)


def fits(code: str, size: int) -> bool:
    """Return whether answers of a size can be numbers of a format: all of it, or the first of several four- or eight-byte ones."""
    width = struct.calcsize(code)
    return width == size or (width >= 4 and size % width == 0)


def right(tally: Tally, truth: Sequence[int], code: str, offset: int) -> int:
    """Count the answers that are the truth."""
    return sum(value == truth[sample] + offset for sample, value in zip(tally.first, values(tally.first.values(), code), strict=True))


def values(answers: Iterable[bytes], code: str) -> Iterable[float]:
    """Read the first number of each answer."""
    unpack = struct.Struct(code).unpack_from
    return (unpack(answer)[0] for answer in answers)
