"""COCO's average precision as pycocotools defines it, computed by faster-coco-eval; imports no
framework, since the judge runs it.

Mean over IoU thresholds 0.50 to 0.95, recall 0 to 1 and categories, at most 100 detections per
image; crowd regions and detections in them are ignored (cocoapi,
PythonAPI/pycocotools/cocoeval.py). All images of the truth count, answered or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from faster_coco_eval import COCO, COCOeval_faster

from workloads.common.detection import rle
from workloads.common.detection.coco import TRUTH_ANNOTATIONS_FILE, CocoDocument

# Legend: D detections, 4 left, top, width, height in pixels.
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

AP_WITHOUT_OBJECTS: Final = -1  # cocoeval.py, _summarize: the mean over no values


class IouKind(StrEnum):
    """What IoU is computed on."""

    BOX = "bbox"
    MASK = "segm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detections:
    """The detections in all images."""

    sample_D: Integers
    """Index of the image in the truth."""
    label_D: Integers
    """Category index in the truth, from 1, in the order of the category ids."""
    score_D: Floats
    box_D4: Floats
    mask_D: Sequence[bytes] | None = None
    """Compressed run lengths over the whole image."""


def read_detection_truth(folder: Path) -> CocoDocument:
    """Read a result's truth; ValueError if it is invalid."""
    return msgspec.json.decode((folder / TRUTH_ANNOTATIONS_FILE).read_bytes(), type=CocoDocument)


def compute_average_precision(truth: CocoDocument, detections: Detections, kind: IouKind) -> float:
    """Compute AP, 0-1; ValueError if the truth has no objects, or a mask does not fill its
    image.
    """
    dataset = COCO(convert_truth_for_library(truth, kind))
    evaluation = COCOeval_faster(
        dataset,
        dataset.loadRes(convert_detections_for_library(truth, detections, kind)),
        kind.value,
    )
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    value = float(evaluation.stats[0])
    if value == AP_WITHOUT_OBJECTS:
        raise ValueError("the ground truth has no objects")
    return value


def convert_truth_for_library(truth: CocoDocument, kind: IouKind) -> dict[str, Any]:
    """Convert the truth to the library's form; masks only if they are scored, each checked
    first.
    """
    sizes = {image.id: (image.height, image.width) for image in truth.images}
    annotations = []
    for number, annotation in enumerate(truth.annotations, 1):
        fields: dict[str, Any] = {
            "id": number,  # the library treats 0 as no match
            "image_id": annotation.image_id,
            "category_id": annotation.category_id,
            "bbox": list(annotation.bbox),
            "area": annotation.area,
            "iscrowd": annotation.iscrowd,
        }
        if kind is IouKind.MASK:
            fields["segmentation"] = convert_segmentation_for_library(
                annotation.segmentation, sizes[annotation.image_id]
            )
        annotations.append(fields)
    return {
        "images": [msgspec.to_builtins(image) for image in truth.images],
        "categories": [msgspec.to_builtins(category) for category in truth.categories],
        "annotations": annotations,
    }


def convert_segmentation_for_library(text: msgspec.Raw, size: tuple[int, int]) -> Any:
    """Convert a segmentation of the truth to the library's form; ValueError if it is invalid."""
    segmentation = rle.SEGMENTATION_DECODER.decode(text)
    rle.check_segmentation(segmentation, *size)
    return msgspec.to_builtins(segmentation)


def convert_detections_for_library(
    truth: CocoDocument, detections: Detections, kind: IouKind
) -> list[dict[str, Any]]:
    """Convert detections to the library's form."""
    categories = sorted(category.id for category in truth.categories)
    images = [truth.images[sample] for sample in detections.sample_D.tolist()]
    labels = [categories[label - 1] for label in detections.label_D.tolist()]
    boxes, scores = detections.box_D4.tolist(), detections.score_D.tolist()
    entries: list[dict[str, Any]] = [
        {"image_id": image.id, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in zip(images, labels, boxes, scores, strict=True)
    ]
    if kind is IouKind.MASK:
        for entry, image, mask in zip(entries, images, detections.mask_D or (), strict=True):
            rle.check_run_lengths(rle.decode_run_lengths(mask), image.height, image.width)
            del entry[
                "bbox"
                # otherwise the library takes the area from it, while pycocotools takes that of the
                # mask
            ]
            entry["segmentation"] = {
                "size": [image.height, image.width],
                "counts": mask.decode("ascii"),
            }
    return entries
