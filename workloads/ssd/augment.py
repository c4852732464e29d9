"""The reference's augmentation: IoU-based crops, horizontal flip, resize, colour jitter.

mlcommons/training, single_stage_detector/ssd, utils.py: SSDCropping, RandomHorizontalFlip,
SSDTransformer; Liu et al. 2016, section 2.2.
"""

from typing import Final

import numpy as np

from suite.input import Box, Change, Extent, View
from workloads.common.detection.coco import Flags, Floats, PictureObjects

# Legend: O objects, 4 left, top, right, bottom as fractions of the picture.
WHOLE: Final = -1.0
LEAST_OVERLAPS: Final = (
    WHOLE,
    0.1,
    0.3,
    0.5,
    0.7,
    0.9,
    0.0,
)  # SSDCropping.sample_options: the whole picture, five overlaps, any crop
LEAST_SIDE: Final = 0.3  # of the picture; SSDCropping.__call__
ASPECTS: Final = (0.5, 2.0)  # width to height
BRIGHTNESS, CONTRAST, SATURATION, HUE = 0.125, 0.5, 0.5, 0.05  # SSDTransformer, ColorJitter


def augmented(
    extent: Extent, objects: PictureObjects, size: int, tries: int, rng: np.random.Generator
) -> tuple[View, PictureObjects]:
    """Crop, mirror every other picture, resize to a square, and jitter the colours."""
    box, objects = cropped(extent, objects, tries, rng)
    if mirrored := bool(rng.random() < 0.5):
        objects = mirror(objects)
    return View(box=box, extent=(size, size), mirrored=mirrored, changes=changes(rng)), objects


def cropped(
    extent: Extent, objects: PictureObjects, tries: int, rng: np.random.Generator
) -> tuple[Box, PictureObjects]:
    """Choose a minimum overlap and try up to `tries` crops for it, until one fits or the whole
    picture is chosen.
    """
    while (least := LEAST_OVERLAPS[rng.integers(len(LEAST_OVERLAPS))]) != WHOLE:
        for _ in range(tries):
            crop_4 = random_crop(rng)
            if crop_4 is not None and (inside_O := kept(objects.box_O4, crop_4, least)).any():
                return pixels(extent, crop_4), within(objects.select_objects(inside_O), crop_4)
    return (0, 0, *extent), objects


def random_crop(rng: np.random.Generator) -> Floats | None:
    """Draw left, top, right, bottom; None if the shape is too elongated."""
    width, height = rng.uniform(LEAST_SIDE, 1.0, size=2)
    left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    if not ASPECTS[0] <= width / height <= ASPECTS[1]:
        return None
    return np.array([left, top, left + width, top + height], dtype=np.float32)


def kept(box_O4: Floats, crop_4: Floats, least: float) -> Flags:
    """Return which objects have their centre in a crop; none if it overlaps any object too
    little.
    """
    shared_O2 = (
        np.minimum(box_O4[:, 2:], crop_4[2:]) - np.maximum(box_O4[:, :2], crop_4[:2])
    ).clip(min=0)
    both_O = (box_O4[:, 2:] - box_O4[:, :2]).prod(axis=1) + (crop_4[2:] - crop_4[:2]).prod()
    shared_O = shared_O2.prod(axis=1)
    if least > 0 and not (shared_O / (both_O - shared_O) > least).all():
        return np.zeros(len(box_O4), dtype=np.bool_)
    centre_O2 = (box_O4[:, :2] + box_O4[:, 2:]) / 2
    inside_O2: Flags = (centre_O2 > crop_4[:2]) & (centre_O2 < crop_4[2:])
    return inside_O2[:, 0] & inside_O2[:, 1]


def pixels(extent: Extent, crop_4: Floats) -> Box:
    """Round a crop to whole pixels, at least one."""
    left, top, right, bottom = (
        int(edge * side) for edge, side in zip(crop_4, 2 * extent, strict=True)
    )
    return left, top, max(right, left + 1), max(bottom, top + 1)


def within(objects: PictureObjects, crop_4: Floats) -> PictureObjects:
    """Clip objects to a crop, and express them as fractions of it."""
    start_4, end_4 = np.tile(crop_4[:2], 2), np.tile(crop_4[2:], 2)
    return objects.replace_boxes(
        ((objects.box_O4.clip(start_4, end_4) - start_4) / (end_4 - start_4)).astype(np.float32)
    )


def mirror(objects: PictureObjects) -> PictureObjects:
    """Mirror boxes, left to right."""
    box_O4 = objects.box_O4.copy()
    box_O4[:, [0, 2]] = 1 - box_O4[:, [2, 0]]
    return objects.replace_boxes(box_O4)


def changes(rng: np.random.Generator) -> tuple[tuple[Change, float], ...]:
    """Draw changes of brightness, contrast, saturation and hue, in random order."""
    drawn = (
        (Change.BRIGHTNESS, rng.uniform(1 - BRIGHTNESS, 1 + BRIGHTNESS)),
        (Change.CONTRAST, rng.uniform(1 - CONTRAST, 1 + CONTRAST)),
        (Change.SATURATION, rng.uniform(1 - SATURATION, 1 + SATURATION)),
        (Change.HUE, rng.uniform(-HUE, HUE)),
    )
    return tuple(drawn[number] for number in rng.permutation(len(drawn)))
