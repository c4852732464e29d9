"""Accuracy from answers and truth; the judge runs it, so it imports no framework."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from suite.workload import Scores

ANSWER: Final = struct.Struct("<i")
TRUTH: Final = "labels.txt"


def encode_answer(label: int) -> bytes:
    """Return a class as the accuracy log stores it."""
    return ANSWER.pack(label)


def format_label(label: int) -> str:
    """Return a class as the file of labels has it."""
    return str(label)


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Score the answers of an accuracy run against the file of labels."""
    return compare(answers, (truth / TRUTH).read_text("ascii").splitlines())


def compare(answers: Mapping[int, bytes], labels: Sequence[str]) -> Scores:
    """Return the share of correct answers; a missing or malformed one counts as wrong."""
    right = sum(
        answers.get(sample) == encode_answer(int(each)) for sample, each in enumerate(labels)
    )
    return {"top1": right / len(labels)}
