"""Top-1 from answers and labels; standard library only, since the judge runs it."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suite.workload import Scores

LABELS: Final = "labels.txt"
ANSWER: Final = struct.Struct("<i")
"""One class number; little-endian, as LoadGen's accuracy log has it on the machines that MLPerf knows."""


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Share of the samples whose answer is their label; a missing or misshapen answer is a wrong one."""
    labels = read_labels(truth)
    right = sum(answers.get(sample) == ANSWER.pack(label) for sample, label in enumerate(labels))
    return {"top1": right / len(labels)}


def read_labels(truth: Path) -> list[int]:
    """Read one label a line; the line's number from 0 is the sample's. ValueError where the file is none of that."""
    path = truth / LABELS
    labels = [int(line) for line in path.read_text("ascii").splitlines()]
    if not labels:
        raise ValueError(f"{path}: no labels in it")
    return labels


def write_labels(truth: Path, labels: list[int]) -> None:
    """Write what `read_labels` reads."""
    (truth / LABELS).write_text("".join(f"{label}\n" for label in labels), "ascii")
