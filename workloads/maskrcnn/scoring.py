"""Box and mask AP from answers and annotations; imports no framework, since the judge runs it.

An answer, little-endian: the number D of detections (uint32); D rows of 7 float32, as in MLPerf's
SSD: sample, then top, left,
bottom, right as fractions of the image, score, and label (category index, from 1, in the order of
the category ids);
D lengths (uint32); and D masks of those lengths, COCO's compressed run lengths over the whole
image.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from suite.workload import Scores
from workloads.common.detection import rle
from workloads.common.detection.average_precision import (
    AveragePrecisionSampler,
    Detections,
    IouKind,
    compute_average_precision,
    read_detection_truth,
)
from workloads.common.detection.coco import CocoDocument, CocoImage

# Legend: D detections of an image, 4 left, top, right, bottom.
Floats: TypeAlias = npt.NDArray[np.float32]
DetectionRows: TypeAlias = npt.NDArray[np.float64]
MASKRCNN_METRICS: Final[Mapping[str, IouKind]] = {"box_ap": IouKind.BOX, "mask_ap": IouKind.MASK}
DETECTION_COUNT_FORMAT: Final = struct.Struct("<I")
MASKRCNN_ROW_FIELDS: Final = 7
MASKRCNN_ROW_BYTES: Final = 4 * MASKRCNN_ROW_FIELDS
MASK_LENGTH_BYTES: Final = 4
MAX_MASKRCNN_COORDINATE_SIDES: Final = 1e6
"""Largest accepted coordinate, in image sides: C++ code computes areas from boxes, so farther
ones are rejected.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedDetections:
    """Detections in one image, best first."""

    box_D4: Floats
    """Fractions of the image's width and height."""
    score_D: Floats
    label_D: npt.NDArray[np.int64]
    mask_D: Sequence[bytes]
    """Compressed run lengths."""


def pack_maskrcnn_answer(sample: int, detections_found: MaskedDetections) -> bytes:
    """Pack an answer."""
    count = len(detections_found.score_D)
    row_D7 = np.empty((count, MASKRCNN_ROW_FIELDS), dtype="<f4")
    row_D7[:, 0], row_D7[:, 5], row_D7[:, 6] = (
        sample,
        detections_found.score_D,
        detections_found.label_D,
    )
    row_D7[:, 1:5] = detections_found.box_D4[:, [1, 0, 3, 2]]
    length_D = np.array([len(mask) for mask in detections_found.mask_D], dtype="<u4")
    return b"".join(
        (
            DETECTION_COUNT_FORMAT.pack(count),
            row_D7.tobytes(),
            length_D.tobytes(),
            *detections_found.mask_D,
        )
    )


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Compute both APs over IoU 0.50 to 0.95; a missing or malformed answer has no detections.
    ValueError if the truth is invalid.
    """
    return score_maskrcnn_answers(answers, read_detection_truth(truth))


def sample_maskrcnn_scores(answers: Mapping[int, bytes], truth: Path) -> AveragePrecisionSampler:
    """Return both APs over any choice of images."""
    document = read_detection_truth(truth)
    collected = collect_maskrcnn_detections(answers, document)
    found = {metric: (kind, collected) for metric, kind in MASKRCNN_METRICS.items()}
    return AveragePrecisionSampler(document, found)


def score_maskrcnn_answers(answers: Mapping[int, bytes], truth: CocoDocument) -> Scores:
    """Compute box and mask AP of answers."""
    collected = collect_maskrcnn_detections(answers, truth)
    return {
        metric: compute_average_precision(truth, collected, kind)
        for metric, kind in MASKRCNN_METRICS.items()
    }


def collect_maskrcnn_detections(answers: Mapping[int, bytes], truth: CocoDocument) -> Detections:
    """Read all answers, in the order of the images."""
    each = [
        unpack_maskrcnn_answer(answers.get(sample, b""), sample, image, len(truth.categories))
        for sample, image in enumerate(truth.images)
    ]
    row_D7 = np.concatenate([np.zeros((0, MASKRCNN_ROW_FIELDS)), *(rows for rows, _ in each)])
    sample_D = row_D7[:, 0].astype(np.int64)
    size_D2 = np.array(
        [(image.width, image.height) for image in truth.images], dtype=np.float64
    ).reshape(-1, 2)[sample_D]
    box_D4 = np.concatenate(
        [row_D7[:, [2, 1]] * size_D2, (row_D7[:, [4, 3]] - row_D7[:, [2, 1]]) * size_D2], axis=1
    )
    masks = [mask for _, masks in each for mask in masks]
    return Detections(
        sample_D=sample_D,
        label_D=row_D7[:, 6].astype(np.int64),
        score_D=row_D7[:, 5],
        box_D4=box_D4,
        mask_D=masks,
    )


def unpack_maskrcnn_answer(
    answer: bytes, sample: int, image: CocoImage, categories: int
) -> tuple[DetectionRows, list[bytes]]:
    """Unpack an answer: [D, 7], and the masks.

    Invalid detections (not a number, another sample's, unknown label, no area, run lengths that do
    not fill the image) are dropped.
    """
    parts = split_maskrcnn_answer(answer)
    if parts is None:
        return np.zeros((0, MASKRCNN_ROW_FIELDS)), []
    row_D7, masks = parts
    good_D = (
        np.isfinite(row_D7).all(axis=1)
        & (np.abs(row_D7[:, 1:5]) < MAX_MASKRCNN_COORDINATE_SIDES).all(axis=1)
        & (row_D7[:, 0] == sample)
    )
    good_D &= np.isin(row_D7[:, 6], np.arange(1, categories + 1)) & (
        row_D7[:, 3:5] >= row_D7[:, 1:3]
    ).all(axis=1)
    good_D &= np.array([is_mask_of_image_size(mask, image) for mask in masks], dtype=np.bool_)
    return row_D7[good_D], [mask for mask, good in zip(masks, good_D, strict=True) if good]


def split_maskrcnn_answer(answer: bytes) -> tuple[DetectionRows, list[bytes]] | None:
    """Split an answer into rows and masks; None if its parts do not add up."""
    if len(answer) < DETECTION_COUNT_FORMAT.size:
        return None
    (count,) = DETECTION_COUNT_FORMAT.unpack_from(answer)
    lengths_at = DETECTION_COUNT_FORMAT.size + count * MASKRCNN_ROW_BYTES
    masks_at = lengths_at + count * MASK_LENGTH_BYTES
    if len(answer) < masks_at:
        return None
    row_D7 = (
        np.frombuffer(
            answer,
            dtype="<f4",
            count=count * MASKRCNN_ROW_FIELDS,
            offset=DETECTION_COUNT_FORMAT.size,
        )
        .astype(np.float64)
        .reshape(-1, MASKRCNN_ROW_FIELDS)
    )
    length_D = np.frombuffer(answer, dtype="<u4", count=count, offset=lengths_at)
    end_D = masks_at + np.cumsum(length_D, dtype=np.int64)
    if (end_D[-1] if count else masks_at) != len(answer):
        return None
    return row_D7, [
        answer[end - length : end]
        for end, length in zip(end_D.tolist(), length_D.tolist(), strict=True)
    ]


def is_mask_of_image_size(mask: bytes, image: CocoImage) -> bool:
    """Return whether run lengths fit that image."""
    try:
        rle.check_run_lengths(rle.decode_run_lengths(mask), image.height, image.width)
    except ValueError:
        return False
    return True
