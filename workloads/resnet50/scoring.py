"""Top-1 and top-5 from answers and labels; standard library only, since the judge runs it."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from suite.workload import Scores

LABELS: Final = "labels.txt"
BEST: Final = 5
"""Classes of an answer that tells top-5; of Krizhevsky et al. 2012, NIPS, section 1: top-5."""
FORMS: Final = {form.size: form for form in (struct.Struct("<i"), struct.Struct(f"<{BEST}i"))}
"""One class or five, the likeliest first; little-endian, as LoadGen's accuracy log has it on the machines that MLPerf knows."""


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Share of the samples whose first class is their label and, where answers have five, of those that have it among these.

    A missing or misshapen answer is a wrong one.
    """
    labels = read_labels(truth)
    told = [classes(answers.get(sample, b"")) for sample in range(len(labels))]
    first = sum(found[:1] == (label,) for found, label in zip(told, labels, strict=True)) / len(labels)
    if all(len(found) < BEST for found in told):
        return {"top1": first}
    return {"top1": first, "top5": sum(label in found for found, label in zip(told, labels, strict=True)) / len(labels)}


def packed(best: Sequence[int]) -> bytes:
    """Make an answer of one class or of five."""
    return struct.pack(f"<{len(best)}i", *best)


def classes(answer: bytes) -> tuple[int, ...]:
    """Read an answer; nothing if it is none."""
    return FORMS[len(answer)].unpack(answer) if len(answer) in FORMS else ()


def read_labels(truth: Path) -> list[int]:
    """Read one label a line; the line's number from 0 is the sample's. ValueError if the file is none of that."""
    path = truth / LABELS
    labels = [int(line) for line in path.read_text("ascii").splitlines()]
    if not labels:
        raise ValueError(f"{path}: no labels")
    return labels


def write_labels(truth: Path, labels: list[int]) -> None:
    """Write what `read_labels` reads."""
    (truth / LABELS).write_text("".join(f"{label}\n" for label in labels), "ascii")
