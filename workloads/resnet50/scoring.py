"""Top-1 and top-5 from answers and labels; uses only the standard library, since the judge runs
it.
"""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from suite.workload import Scores

LABELS: Final = "labels.txt"
BEST: Final = 5
"""Number of classes in a top-5 answer; Krizhevsky et al. 2012, NIPS, section 1: top-5."""
FORMS: Final = {form.size: form for form in (struct.Struct("<i"), struct.Struct(f"<{BEST}i"))}
"""One class or five, likeliest first; little-endian, as in LoadGen's accuracy log on the machines
that MLPerf supports.
"""


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Return the share of samples whose first class is their label and, if answers have five
    classes, of those with the label among them.

    A missing or malformed answer counts as wrong.
    """
    labels = read_labels(truth)
    told = [classes(answers.get(sample, b"")) for sample in range(len(labels))]
    first = sum(found[:1] == (label,) for found, label in zip(told, labels, strict=True)) / len(
        labels
    )
    if all(len(found) < BEST for found in told):
        return {"top1": first}
    return {
        "top1": first,
        "top5": (
            sum(label in found for found, label in zip(told, labels, strict=True)) / len(labels)
        ),
    }


def packed(best: Sequence[int]) -> bytes:
    """Pack an answer of one class or five."""
    return struct.pack(f"<{len(best)}i", *best)


def classes(answer: bytes) -> tuple[int, ...]:
    """Unpack an answer; empty if it is malformed."""
    return FORMS[len(answer)].unpack(answer) if len(answer) in FORMS else ()


def read_labels(truth: Path) -> list[int]:
    """Read one label per line; the line number from 0 is the sample index. ValueError if the file
    is malformed.
    """
    path = truth / LABELS
    labels = [int(line) for line in path.read_text("ascii").splitlines()]
    if not labels:
        raise ValueError(f"{path}: no labels")
    return labels


def write_labels(truth: Path, labels: list[int]) -> None:
    """Write the labels in the form that `read_labels` reads."""
    (truth / LABELS).write_text("".join(f"{label}\n" for label in labels), "ascii")
