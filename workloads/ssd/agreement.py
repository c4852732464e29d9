"""Decides whether two answers to one sample can come from the same model; imports no framework,
since the judge runs it.
"""

import numpy as np
import numpy.typing as npt

from workloads.common.detection import agreement
from workloads.common.detection.agreement import ComparedDetections
from workloads.ssd.scoring import (
    MAX_SSD_COORDINATE_SIDES,
    SSD_DETECTION_BYTES,
    SSD_DETECTION_FIELDS,
)


def agree(first: bytes, second: bytes) -> bool:
    """Compare detections, without those that the scorer drops; an invalid answer agrees only with
    itself.
    """
    if (
        len(first) % SSD_DETECTION_BYTES
        or len(second) % SSD_DETECTION_BYTES
        or not first
        or not second
    ):
        return False
    one, other = (
        np.frombuffer(answer, dtype="<f4").astype(np.float64).reshape(-1, SSD_DETECTION_FIELDS)
        for answer in (first, second)
    )
    if len({*one[:, 0].tolist(), *other[:, 0].tolist()}) != 1:
        return False
    return agreement.has_same_confident_detections(
        select_bounded_detections(one), select_bounded_detections(other)
    )


def select_bounded_detections(row_D7: npt.NDArray[np.float64]) -> ComparedDetections:
    """Return the detections that are within bounds."""
    good_D7 = row_D7[(np.abs(row_D7[:, 1:]) < MAX_SSD_COORDINATE_SIDES).all(axis=1)]
    return ComparedDetections(box_D4=good_D7[:, 1:5], score_D=good_D7[:, 5], label_D=good_D7[:, 6])
