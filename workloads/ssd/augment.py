"""The reference's augmentation: IoU-based crops, horizontal flip, resize, colour jitter.

mlcommons/training, single_stage_detector/ssd, utils.py: SSDCropping, RandomHorizontalFlip,
SSDTransformer; Liu et al. 2016, section 2.2.
"""

from typing import Final

import numpy as np

from suite.input import Box, Extent, View
from workloads.common.detection.coco import Flags, Floats, PictureObjects
from workloads.ssd.colours import ColourChange, ColourChanges

# Legend: O objects, 4 left, top, right, bottom as fractions of the image.
WHOLE_PICTURE_CROP: Final = -1.0
MIN_CROP_IOU_CHOICES: Final = (
    WHOLE_PICTURE_CROP,
    0.1,
    0.3,
    0.5,
    0.7,
    0.9,
    0.0,
)  # SSDCropping.sample_options: the whole image, five overlaps, any crop
MIN_CROP_SIDE_SHARE: Final = 0.3  # of the image; SSDCropping.__call__
CROP_ASPECT_RANGE: Final = (0.5, 2.0)  # width to height
MAX_BRIGHTNESS_CHANGE, MAX_CONTRAST_CHANGE, MAX_SATURATION_CHANGE, MAX_HUE_CHANGE = (
    0.125,
    0.5,
    0.5,
    0.05,
)  # SSDTransformer, ColorJitter


def sample_augmented_view(
    extent: Extent, objects: PictureObjects, size: int, tries: int, rng: np.random.Generator
) -> tuple[View, PictureObjects, ColourChanges]:
    """Crop, mirror every other image, resize to a square, and draw changes of the colours."""
    box, objects = sample_crop_with_objects(extent, objects, tries, rng)
    if mirrored := bool(rng.random() < 0.5):
        objects = apply_object_mirroring(objects)
    view = View(box=box, extent=(size, size), mirrored=mirrored)
    return view, objects, sample_colour_changes(rng)


def sample_crop_with_objects(
    extent: Extent, objects: PictureObjects, tries: int, rng: np.random.Generator
) -> tuple[Box, PictureObjects]:
    """Choose a minimum overlap and try up to `tries` crops for it, until one fits or the whole
    image is chosen.
    """
    while (
        min_iou := MIN_CROP_IOU_CHOICES[rng.integers(len(MIN_CROP_IOU_CHOICES))]
    ) != WHOLE_PICTURE_CROP:
        for _ in range(tries):
            crop_4 = sample_ssd_crop(rng)
            if (
                crop_4 is not None
                and (inside_O := find_objects_in_crop(objects.box_O4, crop_4, min_iou)).any()
            ):
                return round_crop_to_pixels(extent, crop_4), clip_objects_to_crop(
                    objects.select_objects(inside_O), crop_4
                )
    return (0, 0, *extent), objects


def sample_ssd_crop(rng: np.random.Generator) -> Floats | None:
    """Draw left, top, right, bottom; None if the shape is too elongated."""
    width, height = rng.uniform(MIN_CROP_SIDE_SHARE, 1.0, size=2)
    left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    if not CROP_ASPECT_RANGE[0] <= width / height <= CROP_ASPECT_RANGE[1]:
        return None
    return np.array([left, top, left + width, top + height], dtype=np.float32)


def find_objects_in_crop(box_O4: Floats, crop_4: Floats, min_iou: float) -> Flags:
    """Return which objects have their centre in a crop; none if it overlaps any object too
    little.
    """
    shared_O2 = (
        np.minimum(box_O4[:, 2:], crop_4[2:]) - np.maximum(box_O4[:, :2], crop_4[:2])
    ).clip(min=0)
    both_O = (box_O4[:, 2:] - box_O4[:, :2]).prod(axis=1) + (crop_4[2:] - crop_4[:2]).prod()
    shared_O = shared_O2.prod(axis=1)
    if min_iou > 0 and not (shared_O / (both_O - shared_O) > min_iou).all():
        return np.zeros(len(box_O4), dtype=np.bool_)
    centre_O2 = (box_O4[:, :2] + box_O4[:, 2:]) / 2
    inside_O2: Flags = (centre_O2 > crop_4[:2]) & (centre_O2 < crop_4[2:])
    return inside_O2[:, 0] & inside_O2[:, 1]


def round_crop_to_pixels(extent: Extent, crop_4: Floats) -> Box:
    """Round a crop to whole pixels, at least one."""
    left, top, right, bottom = (
        int(edge * side) for edge, side in zip(crop_4, 2 * extent, strict=True)
    )
    return left, top, max(right, left + 1), max(bottom, top + 1)


def clip_objects_to_crop(objects: PictureObjects, crop_4: Floats) -> PictureObjects:
    """Clip objects to a crop, and express them as fractions of it."""
    start_4, end_4 = np.tile(crop_4[:2], 2), np.tile(crop_4[2:], 2)
    return objects.replace_boxes(
        ((objects.box_O4.clip(start_4, end_4) - start_4) / (end_4 - start_4)).astype(np.float32)
    )


def apply_object_mirroring(objects: PictureObjects) -> PictureObjects:
    """Mirror boxes, left to right."""
    box_O4 = objects.box_O4.copy()
    box_O4[:, [0, 2]] = 1 - box_O4[:, [2, 0]]
    return objects.replace_boxes(box_O4)


def sample_colour_changes(rng: np.random.Generator) -> ColourChanges:
    """Draw changes of brightness, contrast, saturation and hue, in random order."""
    sampled = (
        (
            ColourChange.BRIGHTNESS,
            rng.uniform(1 - MAX_BRIGHTNESS_CHANGE, 1 + MAX_BRIGHTNESS_CHANGE),
        ),
        (ColourChange.CONTRAST, rng.uniform(1 - MAX_CONTRAST_CHANGE, 1 + MAX_CONTRAST_CHANGE)),
        (
            ColourChange.SATURATION,
            rng.uniform(1 - MAX_SATURATION_CHANGE, 1 + MAX_SATURATION_CHANGE),
        ),
        (ColourChange.HUE, rng.uniform(-MAX_HUE_CHANGE, MAX_HUE_CHANGE)),
    )
    return tuple(sampled[number] for number in rng.permutation(len(sampled)))
