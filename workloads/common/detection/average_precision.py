"""COCO's average precision as pycocotools defines it, computed by faster-coco-eval; no framework, since the judge runs it.

Mean over IoU thresholds 0.50 to 0.95, recall 0 to 1 and categories, at most 100 detections a picture; crowd regions and what lies in
them count neither way (cocoapi, PythonAPI/pycocotools/cocoeval.py). All pictures of the truth count, with answers or without.
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
from workloads.common.detection.coco import ANNOTATIONS, Document

# Legend: D detections, 4 left, top, width, height in pixels.
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

NO_OBJECT: Final = -1  # cocoeval.py, _summarize: what the mean over nothing is


class Kind(StrEnum):
    """What overlaps are taken of."""

    BOX = "bbox"
    MASK = "segm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detections:
    """What was found in all pictures."""

    sample_D: Integers
    """Place of the picture in the truth."""
    label_D: Integers
    """From 1 on: place of the category in the truth, in the order of the numbers."""
    score_D: Floats
    box_D4: Floats
    mask_D: Sequence[bytes] | None = None
    """Compressed run lengths, as large as the picture."""


def read_truth(folder: Path) -> Document:
    """Read a result's truth; ValueError if it is none."""
    return msgspec.json.decode((folder / ANNOTATIONS).read_bytes(), type=Document)


def average_precision(truth: Document, found: Detections, kind: Kind) -> float:
    """Compute AP, 0-1; ValueError if the truth has nothing to find, or a mask does not fill its picture."""
    dataset = COCO(plain_truth(truth, kind))
    evaluation = COCOeval_faster(dataset, dataset.loadRes(plain_detections(truth, found, kind)), kind.value)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    value = float(evaluation.stats[0])
    if value == NO_OBJECT:
        raise ValueError("the ground truth has no objects")
    return value


def plain_truth(truth: Document, kind: Kind) -> dict[str, Any]:
    """Return the truth as the library wants it; masks only where they are looked at, each checked before."""
    sizes = {image.id: (image.height, image.width) for image in truth.images}
    return {
        "images": [msgspec.to_builtins(image) for image in truth.images],
        "categories": [msgspec.to_builtins(category) for category in truth.categories],
        "annotations": [
            {
                "id": number,  # 0 would be no match to the library
                "image_id": annotation.image_id,
                "category_id": annotation.category_id,
                "bbox": list(annotation.bbox),
                "area": annotation.area,
                "iscrowd": annotation.iscrowd,
                **({"segmentation": plain_segmentation(annotation.segmentation, sizes[annotation.image_id])} if kind is Kind.MASK else {}),
            }
            for number, annotation in enumerate(truth.annotations, 1)
        ],
    }


def plain_segmentation(text: msgspec.Raw, size: tuple[int, int]) -> Any:
    """Return a segmentation of the truth as the library wants it; ValueError if it is none."""
    segmentation = rle.DECODER.decode(text)
    rle.check(segmentation, *size)
    return msgspec.to_builtins(segmentation)


def plain_detections(truth: Document, found: Detections, kind: Kind) -> list[dict[str, Any]]:
    """Return detections as the library wants them."""
    categories = sorted(category.id for category in truth.categories)
    images = [truth.images[sample] for sample in found.sample_D.tolist()]
    labels = [categories[label - 1] for label in found.label_D.tolist()]
    boxes, scores = found.box_D4.tolist(), found.score_D.tolist()
    plain: list[dict[str, Any]] = [
        {"image_id": image.id, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in zip(images, labels, boxes, scores, strict=True)
    ]
    if kind is Kind.MASK:
        for entry, image, mask in zip(plain, images, found.mask_D or (), strict=True):
            rle.check_runs(rle.runs_of(mask), image.height, image.width)
            del entry["bbox"]  # the library takes the area from it, and pycocotools takes that of the mask
            entry["segmentation"] = {"size": [image.height, image.width], "counts": mask.decode("ascii")}
    return plain
