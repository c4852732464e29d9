"""COCO's average precision as pycocotools defines it, computed by faster-coco-eval; imports no
framework, since the judge runs it.

Mean over IoU thresholds 0.50 to 0.95, recall 0 to 1 and categories, at most 100 detections per
image; crowd regions and detections in them are ignored (cocoapi,
PythonAPI/pycocotools/cocoeval.py). All images of the truth count, answered or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from faster_coco_eval import COCO, COCOeval_faster, faster_eval_api_cpp

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
    evaluation = build_evaluation(truth, detections, kind)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    value = float(evaluation.stats[0])
    if value == AP_WITHOUT_OBJECTS:
        raise ValueError("the ground truth has no objects")
    return value


def build_evaluation(
    truth: CocoDocument, detections: Detections, kind: IouKind, *, keeps_images: bool = False
) -> Any:
    """Build the library's evaluation, which keeps what it finds in each image if asked to;
    ValueError for a mask that does not fill its image.
    """
    dataset = COCO(convert_truth_for_library(truth, kind))
    found = dataset.loadRes(convert_detections_for_library(truth, detections, kind))
    return COCOeval_faster(dataset, found, kind.value, separate_eval=keeps_images)


class AveragePrecisionSampler:
    """AP over any choice of images: detections are matched once in each image, and counted as often
    as it is drawn.
    """

    right: Mapping[str, npt.NDArray[np.bool_]] = MappingProxyType({})
    """AP is no share of right samples."""

    def __init__(
        self, truth: CocoDocument, detections: Mapping[str, tuple[IouKind, Detections]]
    ) -> None:
        """Match detections; `detections` are those of each metric. ValueError as of
        `compute_average_precision`.
        """
        self.sample_count = len(truth.images)
        order = np.argsort([image.id for image in truth.images])
        self._places_S = np.argsort(order)
        """The library has images in the order of their ids."""
        self._matched = {
            metric: match_detections(truth, found, kind)
            for metric, (kind, found) in detections.items()
        }

    def score_draws(self, draw_RS: Integers) -> Mapping[str, Floats]:
        """Return each metric over draws of images, [R]."""
        return {
            metric: np.array([matched.score_images(self._places_S[draw_S]) for draw_S in draw_RS])
            for metric, matched in self._matched.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedDetections:
    """What the library found in each category and image."""

    parameters: Any
    images: int
    found: Sequence[Any]
    """By category, then by image."""

    def score_images(self, place_S: Integers) -> float:
        """Return AP over images, by their places; 0 if they have no objects."""
        chosen = [
            self.found[begin + place]
            for begin in range(0, len(self.found), self.images)
            for place in place_S.tolist()
        ]
        self.parameters.imgIds = list(range(len(place_S)))
        evaluated = faster_eval_api_cpp.COCOevalAccumulate(self.parameters, chosen)
        precision = np.asarray(evaluated["precision"])
        known = precision[precision > AP_WITHOUT_OBJECTS]
        return float(known.mean()) if known.size else 0.0


def match_detections(
    truth: CocoDocument, detections: Detections, kind: IouKind
) -> MatchedDetections:
    """Match detections of objects of all sizes, at most 100 in an image."""
    evaluation = build_evaluation(truth, detections, kind, keeps_images=True)
    parameters = evaluation.params
    parameters.areaRng, parameters.areaRngLbl = parameters.areaRng[:1], parameters.areaRngLbl[:1]
    parameters.maxDets = parameters.maxDets[-1:]
    evaluation.evaluate()
    return MatchedDetections(
        parameters=evaluation._paramsEval,
        images=len(truth.images),
        found=evaluation._evalImgs_cpp,
    )


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
