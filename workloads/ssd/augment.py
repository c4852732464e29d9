"""The reference's augmentation: crops by their overlap with the objects, mirror, resize, colour jitter.

mlcommons/training, single_stage_detector/ssd, utils.py: SSDCropping, RandomHorizontalFlip, SSDTransformer; Liu et al. 2016, section 2.2.
"""

from typing import Final

import numpy as np
from PIL import Image

from workloads.common.coco import Flags, Floats, Objects
from workloads.common.vision_ops import torchvision

# Legend: O objects, 4 left, top, right, bottom as shares of the picture.
WHOLE: Final = -1.0
LEAST_OVERLAPS: Final = (WHOLE, 0.1, 0.3, 0.5, 0.7, 0.9, 0.0)  # SSDCropping.sample_options: the whole picture, five overlaps, any crop
LEAST_SIDE: Final = 0.3  # of the picture; SSDCropping.__call__
ASPECTS: Final = (0.5, 2.0)  # width to height
BRIGHTNESS, CONTRAST, SATURATION, HUE = 0.125, 0.5, 0.5, 0.05  # SSDTransformer, ColorJitter


def augmented(picture: Image.Image, objects: Objects, size: int, tries: int, rng: np.random.Generator) -> tuple[Image.Image, Objects]:
    """Crop, mirror every other picture, resize to a square, and change the colours."""
    picture, objects = cropped(picture, objects, tries, rng)
    if rng.random() < 0.5:
        picture, objects = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT), mirrored(objects)
    return jittered(picture.resize((size, size), Image.Resampling.BILINEAR), rng), objects


def cropped(picture: Image.Image, objects: Objects, tries: int, rng: np.random.Generator) -> tuple[Image.Image, Objects]:
    """Choose an overlap and try so many crops for it, until one fits or the whole picture is chosen."""
    while (least := LEAST_OVERLAPS[rng.integers(len(LEAST_OVERLAPS))]) != WHOLE:
        for _ in range(tries):
            crop_4 = random_crop(rng)
            if crop_4 is not None and (inside_O := kept(objects.box_O4, crop_4, least)).any():
                return cut(picture, objects.keep(inside_O), crop_4)
    return picture, objects


def random_crop(rng: np.random.Generator) -> Floats | None:
    """Draw left, top, right, bottom; None where the shape is too long."""
    width, height = rng.uniform(LEAST_SIDE, 1.0, size=2)
    left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    if not ASPECTS[0] <= width / height <= ASPECTS[1]:
        return None
    return np.array([left, top, left + width, top + height], dtype=np.float32)


def kept(box_O4: Floats, crop_4: Floats, least: float) -> Flags:
    """Tell which objects have their centre in a crop; none, where it overlaps any object too little."""
    shared_O2 = (np.minimum(box_O4[:, 2:], crop_4[2:]) - np.maximum(box_O4[:, :2], crop_4[:2])).clip(min=0)
    both_O = (box_O4[:, 2:] - box_O4[:, :2]).prod(axis=1) + (crop_4[2:] - crop_4[:2]).prod()
    shared_O = shared_O2.prod(axis=1)
    if least > 0 and not (shared_O / (both_O - shared_O) > least).all():
        return np.zeros(len(box_O4), dtype=np.bool_)
    centre_O2 = (box_O4[:, :2] + box_O4[:, 2:]) / 2
    inside_O2: Flags = (centre_O2 > crop_4[:2]) & (centre_O2 < crop_4[2:])
    return inside_O2[:, 0] & inside_O2[:, 1]


def cut(picture: Image.Image, objects: Objects, crop_4: Floats) -> tuple[Image.Image, Objects]:
    """Cut picture and objects to a crop."""
    start_4, end_4 = np.tile(crop_4[:2], 2), np.tile(crop_4[2:], 2)
    box_O4 = ((objects.box_O4.clip(start_4, end_4) - start_4) / (end_4 - start_4)).astype(np.float32)
    left, top, right, bottom = (int(edge * side) for edge, side in zip(crop_4, 2 * picture.size, strict=True))
    return picture.crop((left, top, max(right, left + 1), max(bottom, top + 1))), objects.moved(box_O4)


def mirrored(objects: Objects) -> Objects:
    """Mirror boxes, left to right."""
    box_O4 = objects.box_O4.copy()
    box_O4[:, [0, 2]] = 1 - box_O4[:, [2, 0]]
    return objects.moved(box_O4)


def jittered(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Change brightness, contrast, saturation and hue, in any order."""
    change = torchvision.transforms.functional
    steps = (
        (change.adjust_brightness, rng.uniform(1 - BRIGHTNESS, 1 + BRIGHTNESS)),
        (change.adjust_contrast, rng.uniform(1 - CONTRAST, 1 + CONTRAST)),
        (change.adjust_saturation, rng.uniform(1 - SATURATION, 1 + SATURATION)),
        (change.adjust_hue, rng.uniform(-HUE, HUE)),
    )
    for number in rng.permutation(len(steps)):
        apply, strength = steps[number]
        picture = apply(picture, float(strength))
    return picture
