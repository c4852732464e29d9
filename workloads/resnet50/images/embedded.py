"""The embedded data: twelve kinds of shapes, rendered to JPEGs in ImageNet's own layout.

Each picture is a function of (split, class, number) alone: position, size, rotation, colours, shading and noise come
from its own generator. Only the outline distinguishes the classes, so a linear classifier on the
pixels stays at chance.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from workloads.common.pictures.shapes import OUTLINES_PD, Floats, coverage, shaded

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.

VERSION: Final = 2  # part of the cache folder's name: changed pictures need another folder
SIDE_PX: Final = 80
MOST_TURN_DEG: Final = 20.0
JPEG_QUALITY: Final = 88
PER_CLASS: Final[Mapping[str, int]] = {"train": 400, "val": 84}
CALIBRATION: Final = "embedded"
"""Name of the list of calibration pictures."""
CALIBRATED_PER_CLASS: Final = 8

CLASSES: Final = tuple(sorted(OUTLINES_PD))


def _placed(outline_PD: Floats, rng: np.random.Generator) -> Floats:
    """Rotate, squeeze, scale and place an outline at random, in units of the picture's side."""
    turn = math.radians(rng.uniform(-MOST_TURN_DEG, MOST_TURN_DEG))
    rotation = np.array([(math.cos(turn), -math.sin(turn)), (math.sin(turn), math.cos(turn))])
    squeeze = np.array([1.0, rng.uniform(0.85, 1.0)])
    radius = rng.uniform(0.30, 0.44)
    centre = rng.uniform(radius, 1 - radius, size=2)
    placed: Floats = (outline_PD * squeeze) @ rotation.T * radius + centre
    return placed


def _colours(rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Draw two ends of a shaded background and a colour for the shape: light on dark or dark on light.

    If the shape were always the lighter one, a linear classifier would get two of three right from the position of the light alone.
    """
    start, end = rng.uniform(0, 110, size=(2, 3))
    shape = rng.uniform(130, 255, size=3)
    return (255 - start, 255 - end, 255 - shape) if rng.random() < 0.5 else (start, end, shape)


def render(split: str, label: int, number: int) -> Image.Image:
    """Render one picture, identical on every machine."""
    rng = np.random.default_rng([VERSION, list(PER_CLASS).index(split), label, number])
    start, end, shape = _colours(rng)
    background_HWC = shaded(start, end, rng.uniform(0, 2 * math.pi), (SIDE_PX, SIDE_PX))
    mask_HW1 = coverage(_placed(OUTLINES_PD[CLASSES[label]], rng) * SIDE_PX, (SIDE_PX, SIDE_PX))[..., None]
    picture_HWC = background_HWC * (1 - mask_HW1) + shape * mask_HW1
    picture_HWC += rng.normal(0, rng.uniform(2, 10), size=picture_HWC.shape)
    return Image.fromarray(np.clip(picture_HWC, 0, 255).astype(np.uint8))


def write(folder: Path) -> None:
    """Write all pictures as `train/<class>/<name>.JPEG` and `val/<class>/<name>.JPEG`."""
    for split, count in PER_CLASS.items():
        for label, name in enumerate(CLASSES):
            target = folder / split / name
            target.mkdir(parents=True)
            for number in range(count):
                render(split, label, number).save(target / file_name(name, number), "JPEG", quality=JPEG_QUALITY)


def file_name(name: str, number: int) -> str:
    """Return a picture's file name, in ImageNet's style."""
    return f"{name}_{number:05d}.JPEG"


def calibration_names() -> Iterator[str]:
    """Yield the calibration list: the first few pictures of each class, all from the training split."""
    for name in CLASSES:
        yield from (f"train/{name}/{file_name(name, number)}" for number in range(CALIBRATED_PER_CLASS))
