"""Decides whether two answers to one sample can come from the same model; imports no framework,
since the judge runs it.
"""

import math

import numpy as np

from workloads.common.detection import agreement, rle
from workloads.common.detection.agreement import ComparedDetections
from workloads.maskrcnn.scoring import (
    MAX_MASKRCNN_COORDINATE_SIDES,
    DetectionRows,
    split_maskrcnn_answer,
)

# Legend: D detections.


def agree(first: bytes, second: bytes) -> bool:
    """Compare detections by their boxes and by the areas of their masks; an invalid answer agrees
    only with itself.
    """
    one, other = split_maskrcnn_answer(first), split_maskrcnn_answer(second)
    if (
        one is None
        or other is None
        or not has_safe_numbers(one[0])
        or not has_safe_numbers(other[0])
        or {*one[0][:, 0]} != {*other[0][:, 0]}
    ):
        return False
    return agreement.has_same_confident_detections(
        build_box_detections(one[0]), build_box_detections(other[0])
    ) and agreement.has_same_confident_detections(
        build_area_detections(*one), build_area_detections(*other)
    )


def has_safe_numbers(row_D7: DetectionRows) -> bool:
    """Return whether these numbers are safe for arithmetic."""
    return bool(
        np.isfinite(row_D7).all() and (np.abs(row_D7[:, 1:]) < MAX_MASKRCNN_COORDINATE_SIDES).all()
    )


def build_box_detections(row_D7: DetectionRows) -> ComparedDetections:
    """Return the boxes, scores and labels of rows."""
    return ComparedDetections(box_D4=row_D7[:, 1:5], score_D=row_D7[:, 5], label_D=row_D7[:, 6])


def build_area_detections(row_D7: DetectionRows, masks: list[bytes]) -> ComparedDetections:
    """Represent masks as boxes of their area with height one: two overlap by half if neither mask
    is more than twice the other.
    """
    area_D = np.array([count_mask_pixels(mask) for mask in masks], dtype=np.float64)
    box_D4 = np.stack(
        [np.zeros_like(area_D), np.zeros_like(area_D), area_D, np.ones_like(area_D)], axis=1
    )
    return ComparedDetections(box_D4=box_D4, score_D=row_D7[:, 5], label_D=row_D7[:, 6])


def count_mask_pixels(mask: bytes) -> float:
    """Return the pixel count of a mask; an invalid one gets less than any valid one."""
    try:
        pixels = float(rle.decode_run_lengths(mask)[1::2].sum())
    except ValueError:
        return 0.0
    return pixels if 0 <= pixels < math.inf else 0.0
