"""AP from answers and annotations; imports no framework, since the judge runs it.

An answer is a sequence of detections, 7 float32 little-endian each, as in MLPerf's SSD: sample,
then top, left, bottom, right as fractions of the image, score, and label: the category index,
from 1, in the order of the category ids.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from suite.workload import Scores
from workloads.common.detection.average_precision import (
    AveragePrecisionSampler,
    Detections,
    IouKind,
    compute_average_precision,
    read_detection_truth,
)
from workloads.common.detection.coco import CocoDocument

# Legend: D detections.
SSD_METRIC: Final = "box_ap"
SSD_DETECTION_FIELDS: Final = 7
SSD_DETECTION_BYTES: Final = 4 * SSD_DETECTION_FIELDS
MAX_SSD_COORDINATE_SIDES: Final = 1e6
"""Largest accepted coordinate, in image sides: C++ code computes areas from boxes, so farther
ones are rejected.
"""


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Compute AP over IoU 0.50 to 0.95; a missing or malformed answer has no detections. ValueError
    if the truth is invalid.
    """
    return {SSD_METRIC: score_ssd_answers(answers, read_detection_truth(truth))}


def sample_ssd_scores(answers: Mapping[int, bytes], truth: Path) -> AveragePrecisionSampler:
    """Return AP over any choice of images."""
    document = read_detection_truth(truth)
    detections = collect_ssd_detections(answers, document)
    return AveragePrecisionSampler(document, {SSD_METRIC: (IouKind.BOX, detections)})


def score_ssd_answers(answers: Mapping[int, bytes], truth: CocoDocument) -> float:
    """Compute AP of answers."""
    return compute_average_precision(truth, collect_ssd_detections(answers, truth), IouKind.BOX)


def collect_ssd_detections(answers: Mapping[int, bytes], truth: CocoDocument) -> Detections:
    """Read all answers, in the order of the images."""
    rows = [
        unpack_ssd_answer(answers.get(sample, b""), sample, len(truth.categories))
        for sample in range(len(truth.images))
    ]
    row_D7 = np.concatenate([np.zeros((0, SSD_DETECTION_FIELDS)), *rows])
    sample_D = row_D7[:, 0].astype(np.int64)
    size_D2 = np.array(
        [(image.width, image.height) for image in truth.images], dtype=np.float64
    ).reshape(-1, 2)[sample_D]
    corner_D2, side_D2 = (
        row_D7[:, [2, 1]] * size_D2,
        (row_D7[:, [4, 3]] - row_D7[:, [2, 1]]) * size_D2,
    )
    box_D4 = np.concatenate([corner_D2, side_D2], axis=1)
    return Detections(
        sample_D=sample_D,
        label_D=row_D7[:, 6].astype(np.int64),
        score_D=row_D7[:, 5],
        box_D4=box_D4,
    )


def unpack_ssd_answer(answer: bytes, sample: int, categories: int) -> npt.NDArray[np.float64]:
    """Unpack an answer, [D, 7]; invalid detections (not a number, another sample's, unknown label,
    no area) are dropped.
    """
    if len(answer) % SSD_DETECTION_BYTES:
        return np.zeros((0, SSD_DETECTION_FIELDS))
    row_D7 = np.frombuffer(answer, dtype="<f4").astype(np.float64).reshape(-1, SSD_DETECTION_FIELDS)
    good_D = (
        np.isfinite(row_D7).all(axis=1)
        & (np.abs(row_D7[:, 1:5]) < MAX_SSD_COORDINATE_SIDES).all(axis=1)
        & (row_D7[:, 0] == sample)
    )
    good_D &= np.isin(row_D7[:, 6], np.arange(1, categories + 1)) & (
        row_D7[:, 3:5] >= row_D7[:, 1:3]
    ).all(axis=1)
    valid_D7: npt.NDArray[np.float64] = row_D7[good_D]
    return valid_D7
