"""How embedded scenes look: objects and rags, woven as ResNet-50's figures are, on a woven
ground.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from workloads.common.pictures import cloth
from workloads.common.pictures.cloth import Weave
from workloads.common.pictures.shapes import Floats

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.
OutlinePainter: TypeAlias = Callable[[Floats, Floats], None]
"""Paints an outline (points_PD, in pixels) over an image (picture_HWC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeavingParameters:
    """Parameters of woven scenes."""

    periods_px: tuple[float, float]
    """Period of the threads of objects, rags and ground."""
    ground_strength: float
    """The ground's contrast, as a fraction of an object's."""
    rags: tuple[int, int]
    """Number of pieces of cloth that are not objects: at least the first, less than the second."""
    rag_radius: tuple[float, float]
    """Size of these pieces, as a fraction of the shorter side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WovenScene:
    """The look of one scene: a class has a weave and no colour of its own; rags have the same
    weaves (workloads/common/pictures/cloth.py).

    It draws from the scene's generator.
    """

    weaving: WeavingParameters
    rng: np.random.Generator

    def generate_ground(self, size: tuple[int, int]) -> Floats:
        """Draw a woven ground with rags on it, of that height and width, levels 0-255."""
        picture_HWC = cloth.generate_cloth_ground(
            size, self.weaving.periods_px, self.weaving.ground_strength, self.rng
        )
        low, high = (min(size) * each for each in self.weaving.rag_radius)
        for _ in range(self.rng.integers(*self.weaving.rags)):
            cloth.draw_random_rag(picture_HWC, (low, high), self.weaving.periods_px, self.rng)
        return picture_HWC

    def generate_painter(self, label: int) -> OutlinePainter:
        """Draw a cloth of the class's weave."""
        worn = cloth.generate_cloth(
            tuple(Weave)[label % len(Weave)],
            cloth.sample_figure_turn(self.rng),
            self.weaving.periods_px,
            self.rng,
        )
        return partial(cloth.draw_cloth_outline, cloth=worn)
