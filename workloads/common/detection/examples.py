"""Examples of detections for reports: images with annotated and detected objects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from suite.examples import Example, ExampleKind, Outline
from workloads.common.detection import rle
from workloads.common.detection.coco import CocoAnnotation, CocoDocument, CocoImage

# Legend: D detections of an image, O objects, H height, W width.
MIN_DRAWN_SCORE: Final = 0.3
"""Score from which a detection is drawn: AP also counts lower ones, but they would hide the
image.
"""
MIN_MATCHED_IOU: Final = 0.5
"""IoU from which an object counts as found; as in PASCAL VOC and COCO's AP50."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureDetections:
    """Detections in one image."""

    row_D7: npt.NDArray[np.float64]
    """Rows as in the accuracy log: sample; top, left, bottom, right as fractions; score; label."""
    masks: Sequence[bytes] = ()
    """Compressed run lengths; empty if only boxes are required."""


DetectionParser = Callable[[bytes, int, CocoImage], PictureDetections]


class DetectionExamples:
    """Images with their annotated and detected objects."""

    kind = ExampleKind.BOXES

    def __init__(
        self,
        answers: Mapping[int, bytes],
        truth: CocoDocument,
        detect: DetectionParser,
        picture: Callable[[CocoImage], str],
        *,
        masks: bool,
    ) -> None:
        self._answers, self._truth, self._detect, self._picture, self._masks = (
            answers,
            truth,
            detect,
            picture,
            masks,
        )
        self._names = {category.id: category.name for category in truth.categories}
        self._order = {
            category.id: place
            for place, category in enumerate(sorted(truth.categories, key=lambda each: each.id), 1)
        }
        self._objects: dict[int, list[CocoAnnotation]] = {}
        for annotation in truth.annotations:
            self._objects.setdefault(annotation.image_id, []).append(annotation)

    def __len__(self) -> int:
        """Return the number of images in the accuracy set."""
        return len(self._truth.images)

    def quality(self, sample: int) -> float:
        """Return the harmonic mean of recall and precision at IoU 0.5."""
        image = self._truth.images[sample]
        objects = [each for each in self._objects.get(image.id, []) if not each.iscrowd]
        found = self._list_detected_outlines(sample, image)
        if not objects or not found:
            return float(not objects and not found)
        matched = count_matched_objects(
            [(each.bbox, self._names[each.category_id]) for each in objects],
            [(each.box, each.label) for each in found],
        )
        return 2 * matched / (len(objects) + len(found))

    def example(self, sample: int) -> Example:
        """Build one example."""
        image = self._truth.images[sample]
        truth, found = (
            tuple(self._iterate_annotated_outlines(image)),
            tuple(self._list_detected_outlines(sample, image)),
        )
        quality = self.quality(sample)
        return Example(
            sample=sample,
            right=quality == 1.0,
            expected=format_label_counts(truth),
            answered=format_label_counts(found),
            picture=self._picture(image),
            width=image.width,
            height=image.height,
            truth=truth,
            found=found,
            quality=quality,
        )

    def _iterate_annotated_outlines(self, image: CocoImage) -> Iterator[Outline]:
        for each in self._objects.get(image.id, []):
            label = f"{self._names[each.category_id]}{', crowd' if each.iscrowd else ''}"
            shape = rle.SEGMENTATION_DECODER.decode(each.segmentation)
            if self._masks and isinstance(shape, list):
                polygons = tuple(tuple(polygon) for polygon in shape)
            else:
                polygons = ()
            yield Outline(
                label=label,
                score=None,
                box=each.bbox,
                polygons=polygons,
                colour=self._order[each.category_id],
            )

    def _list_detected_outlines(self, sample: int, image: CocoImage) -> list[Outline]:
        detections = self._detect(self._answers.get(sample, b""), sample, image)
        names = {self._order[number]: name for number, name in self._names.items()}
        detected_outlines = []
        for index, (_, top, left, bottom, right, score, label) in enumerate(
            detections.row_D7.tolist()
        ):
            if score >= MIN_DRAWN_SCORE:
                box = (
                    left * image.width,
                    top * image.height,
                    (right - left) * image.width,
                    (bottom - top) * image.height,
                )
                if detections.masks:
                    polygons = convert_mask_to_polygons(detections.masks[index], image)
                else:
                    polygons = ()
                detected_outlines.append(
                    Outline(
                        label=names[int(label)],
                        score=score,
                        box=box,
                        polygons=polygons,
                        colour=int(label),
                    )
                )
        return detected_outlines


def convert_mask_to_polygons(mask: bytes, image: CocoImage) -> tuple[tuple[float, ...], ...]:
    from workloads.common.detection.mask_outlines import trace_mask_polygons

    drawn_HW = rle.decode_segmentation_mask(
        rle.RunLengths(size=(image.height, image.width), counts=mask.decode("ascii")),
        image.height,
        image.width,
    )
    if not drawn_HW.any():
        return ()
    return tuple(tuple(map(float, each)) for each in trace_mask_polygons(drawn_HW.astype(bool)))


LeftTopWidthHeight = tuple[float, float, float, float]


def count_matched_objects(
    objects: Sequence[tuple[LeftTopWidthHeight, str]],
    detections: Sequence[tuple[LeftTopWidthHeight, str]],
) -> int:
    """Count the objects matched by a detection of their class; each detection is used once, best
    scores first.
    """
    unmatched = list(objects)
    for box, label in detections:
        ious = [
            (compute_box_iou(box, each), index)
            for index, (each, name) in enumerate(unmatched)
            if name == label
        ]
        best = max(ious, default=(0.0, -1))
        if best[0] >= MIN_MATCHED_IOU:
            unmatched.pop(best[1])
    return len(objects) - len(unmatched)


def compute_box_iou(one: LeftTopWidthHeight, other: LeftTopWidthHeight) -> float:
    """Compute the IoU of two boxes given as left, top, width, height."""
    across = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    down = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    both = max(across, 0.0) * max(down, 0.0)
    union = one[2] * one[3] + other[2] * other[3] - both
    return both / union if union > 0 else 0.0


def format_label_counts(outlines: Sequence[Outline]) -> str:
    """Describe the objects in an image in words."""
    counts: dict[str, int] = {}
    for each in outlines:
        counts[each.label] = counts.get(each.label, 0) + 1
    return (
        ", ".join(f"{count} \u00d7 {label}" for label, count in sorted(counts.items())) or "nothing"
    )
