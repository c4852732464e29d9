"""The reference's augmentation: IoU-based crops, horizontal flip, resize, colour jitter.

mlcommons/training, single_stage_detector/ssd, utils.py: SSDCropping, RandomHorizontalFlip,
SSDTransformer; Liu et al. 2016, section 2.2.
"""

from typing import Final

import numpy as np

from suite.input import Box, Extent, View
from workloads.common.detection.coco import Flags, Floats, PictureObjects
from workloads.ssd.colours import ColourChange, ColourChanges

# Legend: O objects, T crops, 4 left, top, right, bottom as fractions of the image.
WHOLE_PICTURE_CROP: Final = -1.0
# SSDCropping.sample_options: the whole image, five overlaps, any crop
MIN_CROP_IOU_CHOICES: Final = (
    WHOLE_PICTURE_CROP,
    0.1,
    0.3,
    0.5,
    0.7,
    0.9,
    0.0,
)
MIN_CROP_SIDE_SHARE: Final = 0.3  # of the image; SSDCropping.__call__
CROP_ASPECT_RANGE: Final = (0.5, 2.0)  # width to height
# SSDTransformer, ColorJitter
MAX_BRIGHTNESS_CHANGE, MAX_CONTRAST_CHANGE, MAX_SATURATION_CHANGE, MAX_HUE_CHANGE = (
    0.125,
    0.5,
    0.5,
    0.05,
)


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
        found = sample_fitting_crop(objects.box_O4, min_iou, tries, rng)
        if found is not None:
            crop_4, inside_O = found
            return round_crop_to_pixels(extent, crop_4), clip_objects_to_crop(
                objects.select_objects(inside_O), crop_4
            )
    return (0, 0, *extent), objects


def sample_fitting_crop(
    box_O4: Floats, min_iou: float, tries: int, rng: np.random.Generator
) -> tuple[Floats, Flags] | None:
    """Return the first of up to `tries` crops that fits, and the objects in it; None if none fits.

    All are drawn at once; the generator is left where drawing them one by one would leave it.
    """
    state = rng.bit_generator.state
    crop_T4, shapely_T = sample_ssd_crops(tries, rng)
    inside_TO = find_objects_in_crop(box_O4, crop_T4, min_iou)
    fitting_T = shapely_T & inside_TO.any(axis=1)
    if not fitting_T.any():
        return None
    first = int(fitting_T.argmax())
    rng.bit_generator.state = state
    rng.random((first + 1, 4))
    return crop_T4[first], inside_TO[first]


def sample_ssd_crops(tries: int, rng: np.random.Generator) -> tuple[Floats, Flags]:
    """Draw left, top, right, bottom of crops, [T, 4], and whether each is not too elongated."""
    share_T4 = rng.random((tries, 4))
    side_T2 = MIN_CROP_SIDE_SHARE + (1.0 - MIN_CROP_SIDE_SHARE) * share_T4[:, :2]
    corner_T2 = (1 - side_T2) * share_T4[:, 2:]
    aspect_T = side_T2[:, 0] / side_T2[:, 1]
    crop_T4 = np.concatenate([corner_T2, corner_T2 + side_T2], axis=1).astype(np.float32)
    return crop_T4, (aspect_T >= CROP_ASPECT_RANGE[0]) & (aspect_T <= CROP_ASPECT_RANGE[1])


def find_objects_in_crop(box_O4: Floats, crop_T4: Floats, min_iou: float) -> Flags:
    """Return which objects have their centre in each crop, [T, O]; none if it overlaps any object
    too little.
    """
    crop_T14 = crop_T4[:, None]
    shared_TO2 = (
        np.minimum(box_O4[:, 2:], crop_T14[..., 2:]) - np.maximum(box_O4[:, :2], crop_T14[..., :2])
    ).clip(min=0)
    centre_O2 = (box_O4[:, :2] + box_O4[:, 2:]) / 2
    inside_TO2: Flags = (centre_O2 > crop_T14[..., :2]) & (centre_O2 < crop_T14[..., 2:])
    inside_TO = inside_TO2[..., 0] & inside_TO2[..., 1]
    if min_iou <= 0:
        return np.asarray(inside_TO)
    shared_TO = shared_TO2[..., 0] * shared_TO2[..., 1]
    both_TO = compute_box_areas(box_O4) + compute_box_areas(crop_T4)[:, None]
    overlapped_T = (shared_TO / (both_TO - shared_TO) > min_iou).all(axis=1)
    return np.asarray(inside_TO & overlapped_T[:, None])


def compute_box_areas(box_O4: Floats) -> Floats:
    """Compute width times height."""
    side_O2 = box_O4[:, 2:] - box_O4[:, :2]
    return side_O2[:, 0] * side_O2[:, 1]


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
