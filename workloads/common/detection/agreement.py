"""Decides whether two sets of detections can come from one model; imports no framework, since the
judge runs it.

Floating-point sums depend on the batch size, and with them scores, which of two close boxes
suppresses the other, and what just misses a threshold.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

# Legend: D detections of one answer, E of the other, 4 left, top, right, bottom.
Floats: TypeAlias = npt.NDArray[np.float64]

MIN_CONFIDENT_SCORE: Final = 0.3  # house rule: score from which a detection must be found again ...
MAX_SCORE_DIFFERENCE: Final = 0.1  # ... with a score that differs by at most this
MIN_AGREEING_IOU: Final = 0.5  # suppression may keep either of two boxes that overlap by more
# house rule: more detections than any round requires (200) would only fill memory, which grows with
# every pair
MAX_COMPARED_DETECTIONS: Final = 1000
MAX_MISSED_SHARE: Final = (
    0.2  # house rule: one in five may differ, where a suppressed box would have suppressed others
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedDetections:
    """Detections in one image."""

    box_D4: Floats
    score_D: Floats
    label_D: Floats


def has_same_confident_detections(one: ComparedDetections, other: ComparedDetections) -> bool:
    """Return whether each answer contains the confident detections of the other; non-finite answers
    agree with none.
    """
    return (
        max(len(one.score_D), len(other.score_D)) <= MAX_COMPARED_DETECTIONS
        and has_confident_detections(one, other)
        and has_confident_detections(other, one)
    )


def has_confident_detections(one: ComparedDetections, other: ComparedDetections) -> bool:
    """Return whether `other` contains the confident detections of `one`."""
    sure_D = one.score_D >= MIN_CONFIDENT_SCORE
    near_DE = np.abs(one.score_D[sure_D, None] - other.score_D) <= MAX_SCORE_DIFFERENCE
    near_DE &= one.label_D[sure_D, None] == other.label_D
    near_DE &= compute_detection_ious(one.box_D4[sure_D], other.box_D4) >= MIN_AGREEING_IOU
    missed = int((~near_DE.any(axis=1)).sum())
    return missed <= int(MAX_MISSED_SHARE * int(sure_D.sum()))


def compute_detection_ious(box_D4: Floats, box_E4: Floats) -> Floats:
    """Intersection over union of each box of `one` with each of `other`; boxes without area overlap
    none.
    """
    corner_DE2 = np.maximum(box_D4[:, None, :2], box_E4[:, :2])
    shared_DE = np.clip(np.minimum(box_D4[:, None, 2:], box_E4[:, 2:]) - corner_DE2, 0, None).prod(
        axis=2
    )
    area_D, area_E = ((each[:, 2:] - each[:, :2]).prod(axis=1) for each in (box_D4, box_E4))
    both_DE = area_D[:, None] + area_E - shared_DE
    found: Floats = np.divide(shared_DE, both_DE, out=np.zeros_like(shared_DE), where=both_DE > 0)
    return found
