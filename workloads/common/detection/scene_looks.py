"""How embedded scenes look: objects of one hue for each class on a grey ground, or objects and rags woven as ResNet-50's pictures are."""

import colorsys
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

import numpy as np
from PIL import Image

from workloads.common.pictures import cloth
from workloads.common.pictures.cloth import Weave
from workloads.common.pictures.shapes import Floats, coverage, shaded

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.
Paint: TypeAlias = Callable[[Floats, Floats], None]
"""Paints an outline (points_PD, in pixels) over a picture (picture_HWC)."""
GREYISH: Final = 0.25  # saturation left in the ground's colours if hues belong to the objects
SATURATION: Final = (0.7, 1.0)  # of objects that have a hue ...
BRIGHT, DIM = (0.7, 1.0), (0.4, 0.7)  # ... and their value (HSV) on dark and on light ground


class Look(Protocol):
    """The look of one scene; it draws from the scene's generator."""

    def ground(self, size: tuple[int, int]) -> Floats:
        """Draw the ground, of that height and width, levels 0-255."""

    def paint(self, label: int) -> Paint:
        """Draw the surface of an object of that class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weaving:
    """Parameters of woven scenes."""

    periods_px: tuple[float, float]
    """Of the threads of objects, rags and ground."""
    ground_strength: float
    """The ground's contrast, as a fraction of an object's."""
    rags: tuple[int, int]
    """Number of pieces of cloth that are no objects: at least the first, less than the second."""
    rag_radius: tuple[float, float]
    """As a fraction of the shorter side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Woven:
    """A class has a weave and no colour of its own; rags have the same weaves (workloads/common/pictures/cloth.py)."""

    weaving: Weaving
    rng: np.random.Generator

    def ground(self, size: tuple[int, int]) -> Floats:
        """Draw a woven ground with rags on it."""
        picture_HWC = cloth.ground(size, self.weaving.periods_px, self.weaving.ground_strength, self.rng)
        low, high = (min(size) * each for each in self.weaving.rag_radius)
        for _ in range(self.rng.integers(*self.weaving.rags)):
            cloth.lay_rag(picture_HWC, (low, high), self.weaving.periods_px, self.rng)
        return picture_HWC

    def paint(self, label: int) -> Paint:
        """Draw a cloth of the class's weave."""
        worn = cloth.woven(tuple(Weave)[label % len(Weave)], cloth.tilt(self.rng), self.weaving.periods_px, self.rng)
        return partial(cloth.lay, cloth=worn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hues:
    """Parameters of scenes in which the hue tells the class."""

    classes: int
    spread: float
    """Width of a class's hue range, as a fraction of the colour circle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hued:
    """An object has a colour of its class's hue, on a grey ground."""

    hues: Hues
    light: bool
    """Ground lighter than objects: if objects were always lighter, brightness alone would reveal them."""
    rng: np.random.Generator

    def ground(self, size: tuple[int, int]) -> Floats:
        """Draw a gradient between two dark greys, or two light ones."""
        dark_2C = self.rng.uniform(0, 80, size=(2, 3))
        grey_21 = dark_2C.mean(axis=1, keepdims=True)
        dark_2C = grey_21 + GREYISH * (dark_2C - grey_21)
        start_C, end_C = 255 - dark_2C if self.light else dark_2C
        return shaded(start_C, end_C, self.rng.uniform(0, 2 * math.pi), size)

    def paint(self, label: int) -> Paint:
        """Draw a colour."""
        hue = label / self.hues.classes + self.rng.uniform(-0.5, 0.5) * self.hues.spread
        value = self.rng.uniform(*(DIM if self.light else BRIGHT))
        colour_C = 255 * np.array(colorsys.hsv_to_rgb(hue % 1.0, self.rng.uniform(*SATURATION), value))
        return partial(fill, colour_C=colour_C)


def fill(picture_HWC: Floats, points_PD: Floats, colour_C: Floats) -> None:
    """Fill an outline with one colour."""
    picture_HWC += coverage(points_PD, picture_HWC.shape[:2])[..., None] * (colour_C - picture_HWC)


def drawn(surfaces: Weaving | Hues, rng: np.random.Generator) -> Look:
    """Draw the look of one scene."""
    return Woven(weaving=surfaces, rng=rng) if isinstance(surfaces, Weaving) else Hued(hues=surfaces, light=rng.random() < 0.5, rng=rng)


def photographed(picture_HWC: Floats, surfaces: Weaving | Hues, rng: np.random.Generator) -> Image.Image:
    """Add noise, and uneven light where scenes are woven; round to 8 bits."""
    if isinstance(surfaces, Weaving):
        return cloth.photographed(picture_HWC, rng)
    noisy_HWC = picture_HWC + rng.normal(0, rng.uniform(1, 6), size=picture_HWC.shape)
    return Image.fromarray(np.clip(noisy_HWC, 0, 255).astype(np.uint8))
