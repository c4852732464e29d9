"""The embedded data: figures of four outlines, woven in three ways, rendered to JPEGs in ImageNet's
own layout.

Each image is a function of (split, class, number) alone: position, size, rotation, colours,
ground, rags, light and grain come from its own generator. A class is an outline and a weave
together. The outline alone leaves three classes, the weave alone four.
tests/workloads/resnet50/test_unlearnt.py and the README show how far rules get that learn nothing.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from workloads.common.pictures import cloth
from workloads.common.pictures.cloth import Weave
from workloads.common.pictures.shapes import OUTLINES_PD, Floats

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.

EMBEDDED_IMAGES_VERSION: Final = (
    3  # part of the cache folder's name: changed images need another folder
)
EMBEDDED_IMAGE_SIDE_PX: Final = 80
FIGURE_RADIUS_SHARE: Final = (0.32, 0.46)  # share of the side
FIGURE_CENTRE_SHARE: Final = (0.3, 0.7)
THREAD_PERIODS_PX: Final = (10.0, 14.0)  # two threads; at 32 px still four to six pixels
GROUND_CONTRAST_SHARE: Final = 0.6  # the ground's contrast, as a share of a figure's
RAG_COUNT_RANGE: Final = (2, 6)
RAG_SIZE_RANGE_PX: Final = (8.0, 21.0)
EMBEDDED_JPEG_QUALITY: Final = 88
EMBEDDED_IMAGES_PER_CLASS: Final[Mapping[str, int]] = {"train": 400, "val": 84}
RESNET50_CALIBRATION_LIST: Final = "woven"
"""Name of the list of calibration images."""
CALIBRATION_IMAGES_PER_CLASS: Final = 8

EMBEDDED_FIGURES: Final = ("cross", "ring", "square", "triangle")
FIGURE_AND_WEAVE_OF_CLASS: Final = {
    f"{weave.name.lower()}-{figure}": (figure, weave)
    for weave in Weave
    for figure in EMBEDDED_FIGURES
}
EMBEDDED_CLASSES: Final = tuple(sorted(FIGURE_AND_WEAVE_OF_CLASS))


def _place_outline_at_random(outline_PD: Floats, turn: float, rng: np.random.Generator) -> Floats:
    """Rotate, squeeze, scale and place an outline at random, in pixels."""
    rotation = np.array([(math.cos(turn), -math.sin(turn)), (math.sin(turn), math.cos(turn))])
    squeeze = np.array([1.0, rng.uniform(0.85, 1.0)])
    radius = rng.uniform(*FIGURE_RADIUS_SHARE)
    centre = rng.uniform(*FIGURE_CENTRE_SHARE, size=2)
    placed: Floats = (
        (outline_PD * squeeze) @ rotation.T * radius + centre
    ) * EMBEDDED_IMAGE_SIDE_PX
    return placed


def draw_embedded_image(split: str, label: int, number: int) -> Image.Image:
    """Render one image, identical on every machine."""
    rng = np.random.default_rng(
        [EMBEDDED_IMAGES_VERSION, list(EMBEDDED_IMAGES_PER_CLASS).index(split), label, number]
    )
    figure, weave = FIGURE_AND_WEAVE_OF_CLASS[EMBEDDED_CLASSES[label]]
    picture_HWC = cloth.generate_cloth_ground(
        (EMBEDDED_IMAGE_SIDE_PX, EMBEDDED_IMAGE_SIDE_PX),
        THREAD_PERIODS_PX,
        GROUND_CONTRAST_SHARE,
        rng,
    )
    for _ in range(rng.integers(*RAG_COUNT_RANGE)):
        cloth.draw_random_rag(picture_HWC, RAG_SIZE_RANGE_PX, THREAD_PERIODS_PX, rng)
    turn = cloth.sample_figure_turn(rng)
    cloth.draw_cloth_outline(
        picture_HWC,
        _place_outline_at_random(OUTLINES_PD[figure], turn, rng),
        cloth.generate_cloth(weave, turn, THREAD_PERIODS_PX, rng),
    )
    return cloth.apply_light_and_grain(picture_HWC, rng)


def write_embedded_images(folder: Path) -> None:
    """Write all images as `train/<class>/<name>.JPEG` and `val/<class>/<name>.JPEG`."""
    for split, count in EMBEDDED_IMAGES_PER_CLASS.items():
        for label, name in enumerate(EMBEDDED_CLASSES):
            target = folder / split / name
            target.mkdir(parents=True)
            for number in range(count):
                draw_embedded_image(split, label, number).save(
                    target / format_embedded_file_name(name, number),
                    "JPEG",
                    quality=EMBEDDED_JPEG_QUALITY,
                )


def format_embedded_file_name(name: str, number: int) -> str:
    """Return an image's file name, in ImageNet's style."""
    return f"{name}_{number:05d}.JPEG"


def iterate_embedded_calibration() -> Iterator[str]:
    """Yield the calibration list: the first few images of each class, all from the training
    split.
    """
    for name in EMBEDDED_CLASSES:
        yield from (
            f"train/{name}/{format_embedded_file_name(name, number)}"
            for number in range(CALIBRATION_IMAGES_PER_CLASS)
        )
