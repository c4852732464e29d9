"""AP from answers and annotations; no framework, since the judge runs it.

An answer is a run of detections, 7 float32 little-endian each, as MLPerf's SSD has them: sample, then top, left, bottom, right as
shares of the picture, score, and label: the place of the category, from 1, in the order of the category numbers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from suite.workload import Scores
from workloads.common.detection.average_precision import Detections, Kind, average_precision, read_truth
from workloads.common.detection.coco import Document

# Legend: D detections.
METRIC: Final = "box_ap"
FIELDS: Final = 7
DETECTION_BYTES: Final = 4 * FIELDS
LARGEST: Final = 1e6
"""Largest accepted coordinate, in picture sides: C++ code computes areas from boxes, so farther ones are rejected."""


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """AP over IoU 0.50 to 0.95; a missing or misshapen answer has found nothing. ValueError if the truth is none."""
    return {METRIC: average_precision_of(answers, read_truth(truth))}


def average_precision_of(answers: Mapping[int, bytes], truth: Document) -> float:
    """Compute AP of answers."""
    return average_precision(truth, detections(answers, truth), Kind.BOX)


def detections(answers: Mapping[int, bytes], truth: Document) -> Detections:
    """Read all answers, in the order of the pictures."""
    rows = [rows_of(answers.get(sample, b""), sample, len(truth.categories)) for sample in range(len(truth.images))]
    row_D7 = np.concatenate([np.zeros((0, FIELDS)), *rows])
    sample_D = row_D7[:, 0].astype(np.int64)
    size_D2 = np.array([(image.width, image.height) for image in truth.images], dtype=np.float64).reshape(-1, 2)[sample_D]
    place_D2, side_D2 = row_D7[:, [2, 1]] * size_D2, (row_D7[:, [4, 3]] - row_D7[:, [2, 1]]) * size_D2
    box_D4 = np.concatenate([place_D2, side_D2], axis=1)
    return Detections(sample_D=sample_D, label_D=row_D7[:, 6].astype(np.int64), score_D=row_D7[:, 5], box_D4=box_D4)


def rows_of(answer: bytes, sample: int, categories: int) -> npt.NDArray[np.float64]:
    """Read an answer, [D, 7]; detections that are none (no number, another sample's, no such label, no area) are left out."""
    if len(answer) % DETECTION_BYTES:
        return np.zeros((0, FIELDS))
    row_D7 = np.frombuffer(answer, dtype="<f4").astype(np.float64).reshape(-1, FIELDS)
    good_D = np.isfinite(row_D7).all(axis=1) & (np.abs(row_D7[:, 1:5]) < LARGEST).all(axis=1) & (row_D7[:, 0] == sample)
    good_D &= np.isin(row_D7[:, 6], np.arange(1, categories + 1)) & (row_D7[:, 3:5] >= row_D7[:, 1:3]).all(axis=1)
    found: npt.NDArray[np.float64] = row_D7[good_D]
    return found
