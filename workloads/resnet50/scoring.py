"""Top-1 and top-5 from answers and labels; uses only the standard library, since the judge runs
it.
"""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suite.workload import Scores

if TYPE_CHECKING:
    from workloads.common.score_samplers import SumSampler

RESNET50_LABELS_FILE: Final = "labels.txt"
TOP_CLASS_COUNT: Final = 5
"""Number of classes in a top-5 answer; Krizhevsky et al. 2012, NIPS, section 1: top-5."""
ANSWER_FORMATS_BY_BYTES: Final = {
    form.size: form for form in (struct.Struct("<i"), struct.Struct(f"<{TOP_CLASS_COUNT}i"))
}
"""One class or five, likeliest first; little-endian, as in LoadGen's accuracy log on the machines
that MLPerf supports.
"""


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Return the share of samples whose first class is their label and, if answers have five
    classes, of those with the label among them.

    A missing or malformed answer counts as wrong.
    """
    right = find_right_classes(answers, truth)
    return {metric: sum(each) / len(each) for metric, each in right.items()}


def sample_resnet50_scores(answers: Mapping[int, bytes], truth: Path) -> "SumSampler":
    """Return the scores over any choice of samples."""
    from workloads.common.score_samplers import build_share_sampler

    return build_share_sampler(find_right_classes(answers, truth))


def find_right_classes(answers: Mapping[int, bytes], truth: Path) -> Mapping[str, Sequence[bool]]:
    """Return for each sample whether its first class is its label and, if answers have five
    classes, whether the label is among them.
    """
    labels = read_image_labels(truth)
    answered = [unpack_class_answer(answers.get(sample, b"")) for sample in range(len(labels))]
    pairs = list(zip(answered, labels, strict=True))
    first = [found[:1] == (label,) for found, label in pairs]
    if all(len(found) < TOP_CLASS_COUNT for found in answered):
        return {"top1": first}
    return {"top1": first, "top5": [label in found for found, label in pairs]}


def pack_class_answer(best: Sequence[int]) -> bytes:
    """Pack an answer of one class or five."""
    return struct.pack(f"<{len(best)}i", *best)


def unpack_class_answer(answer: bytes) -> tuple[int, ...]:
    """Unpack an answer; empty if it is malformed."""
    if len(answer) in ANSWER_FORMATS_BY_BYTES:
        return ANSWER_FORMATS_BY_BYTES[len(answer)].unpack(answer)
    return ()


def read_image_labels(truth: Path) -> list[int]:
    """Read one label per line; the line number from 0 is the sample index. ValueError if the file
    is malformed.
    """
    path = truth / RESNET50_LABELS_FILE
    labels = [int(line) for line in path.read_text("ascii").splitlines()]
    if not labels:
        raise ValueError(f"{path}: no labels")
    return labels


def write_image_labels(truth: Path, labels: list[int]) -> None:
    """Write the labels in the form that `read_image_labels` reads."""
    (truth / RESNET50_LABELS_FILE).write_text("".join(f"{label}\n" for label in labels), "ascii")
