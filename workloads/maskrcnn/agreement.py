"""Decides whether two answers to one sample can come from the same model; imports no framework,
since the judge runs it.
"""

import math

import numpy as np

from workloads.common.detection import agreement, rle
from workloads.common.detection.agreement import ComparedDetections
from workloads.maskrcnn.scoring import LARGEST, Rows, cut

# Legend: D detections.


def agree(first: bytes, second: bytes) -> bool:
    """Compare detections by their boxes and by the areas of their masks; an invalid answer agrees
    only with itself.
    """
    one, other = cut(first), cut(second)
    if (
        one is None
        or other is None
        or not sound(one[0])
        or not sound(other[0])
        or {*one[0][:, 0]} != {*other[0][:, 0]}
    ):
        return False
    return agreement.has_same_confident_detections(
        boxes(one[0]), boxes(other[0])
    ) and agreement.has_same_confident_detections(areas(*one), areas(*other))


def sound(row_D7: Rows) -> bool:
    """Return whether these numbers are safe for arithmetic."""
    return bool(np.isfinite(row_D7).all() and (np.abs(row_D7[:, 1:]) < LARGEST).all())


def boxes(row_D7: Rows) -> ComparedDetections:
    """Return the boxes, scores and labels of rows."""
    return ComparedDetections(box_D4=row_D7[:, 1:5], score_D=row_D7[:, 5], label_D=row_D7[:, 6])


def areas(row_D7: Rows, masks: list[bytes]) -> ComparedDetections:
    """Represent masks as boxes of their area with height one: two overlap by half if neither mask
    is more than twice the other.
    """
    area_D = np.array([area(mask) for mask in masks], dtype=np.float64)
    box_D4 = np.stack(
        [np.zeros_like(area_D), np.zeros_like(area_D), area_D, np.ones_like(area_D)], axis=1
    )
    return ComparedDetections(box_D4=box_D4, score_D=row_D7[:, 5], label_D=row_D7[:, 6])


def area(mask: bytes) -> float:
    """Return the pixel count of a mask; an invalid one gets less than any valid one."""
    try:
        pixels = float(rle.decode_run_lengths(mask)[1::2].sum())
    except ValueError:
        return 0.0
    return pixels if 0 <= pixels < math.inf else 0.0
