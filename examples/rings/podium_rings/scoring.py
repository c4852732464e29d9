"""Accuracy from answers and truth; the judge runs it, so it imports no framework."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suite.workload import Scores

ANSWER: Final = struct.Struct("<i")
POINT: Final = struct.Struct("<ff")
"""A point as bytes, to send it over a network."""
TRUTH: Final = "labels.txt"


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Return the share of correct answers; a missing or malformed one counts as wrong."""
    labels = [int(line) for line in (truth / TRUTH).read_text("ascii").splitlines()]
    right = sum(answers.get(sample) == ANSWER.pack(ring) for sample, ring in enumerate(labels))
    return {"top1": right / len(labels)}
