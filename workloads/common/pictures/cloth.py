"""Embedded images: figures and rags on a ground, all woven from two threads, one dark and one
light.

Every figure has parts darker and parts lighter than its background, in tints that carry no
information, under uneven light. Rags have the same weaves and rotations as figures; the ground has
the same threads. No threshold of brightness, hue, saturation, local contrast or edge direction
therefore separates figures from the rest. tests/workloads/resnet50/test_unlearnt.py measures how
far such rules get.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from PIL import Image

from workloads.common.pictures.shapes import (
    Floats,
    build_polar_outline,
    compute_pixel_coverage,
    compute_shading,
    find_outline_window,
)

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.
DARK_THREAD_LEVELS, LIGHT_THREAD_LEVELS = (10.0, 90.0), (160.0, 240.0)  # levels of the two threads
MAX_THREAD_TINT: Final = 25.0  # how far a channel may be from a thread's level
THREAD_SHARPNESS: Final = 2.0  # of the border between two threads
RAG_CORNERS_RANGE: Final = (5, 9)
MAX_FIGURE_TURN_DEG: Final = 20.0  # of figures and rags: bars stay bars, posts stay posts
# of one of the ground's two cloths, which is neither level nor upright
GROUND_SLANT_RANGE_DEG: Final = (
    33.0,
    57.0,
)
LAMP_BRIGHTNESS_SHARE: Final = 0.3  # light falls by this share to one side, and rises to the other
GRAIN_LEVELS_RANGE: Final = (3.0, 8.0)


class Weave(Enum):
    """The pattern of the threads: horizontal stripes, vertical stripes, or the sum of both."""

    BARS = 0
    POSTS = 1
    PLAID = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloth:
    """A pattern of two threads, of any size."""

    weave: Weave
    turn: float
    """Radians."""
    period_px: float
    phase_2: Floats
    thread_2C: Floats

    def compute_light_share(self, size: tuple[int, int]) -> Floats:
        """Return the second thread's share of each pixel in a window of that height and width,
        0-1.
        """
        down_H, across_W = (
            2 * math.pi / self.period_px * np.arange(side, dtype=np.float64) for side in size
        )
        cosine, sine = math.cos(self.turn), math.sin(self.turn)
        found_HW: Floats = np.zeros(size)
        if self.weave is not Weave.POSTS:
            found_HW += compute_plane_wave(down_H * cosine + self.phase_2[0], -across_W * sine)
        if self.weave is not Weave.BARS:
            found_HW += compute_plane_wave(down_H * sine, across_W * cosine + self.phase_2[1])
        found_HW *= THREAD_SHARPNESS
        found_HW += 0.5
        return clamp_in_place(found_HW, 1)

    def compute_colours(self, size: tuple[int, int]) -> Floats:
        """Return the colours of a window of that height and width, C H W: long rows, which
        vectorise.
        """
        dark_C11, light_C11 = self.thread_2C[..., None, None]
        found_CHW: Floats = (light_C11 - dark_C11) * self.compute_light_share(size)
        found_CHW += dark_C11
        return found_CHW


def compute_plane_wave(down_H: Floats, across_W: Floats) -> Floats:
    """Compute sin(down + across) for all pairs, by the addition theorem."""
    found: Floats = np.sin(down_H)[:, None] * np.cos(across_W)
    found += np.cos(down_H)[:, None] * np.sin(across_W)
    return found


def clamp_in_place(level: Floats, most: float) -> Floats:
    """Clip to 0 and above, in place: on small arrays np.clip takes several times as long."""
    np.maximum(level, 0, out=level)
    return np.minimum(level, most, out=level)


def generate_cloth(
    weave: Weave,
    turn: float,
    periods_px: tuple[float, float],
    rng: np.random.Generator,
    strength: float = 1.0,
) -> Cloth:
    """Draw a cloth's colours, period and phases; `strength` is the share of the full contrast."""
    level_2 = np.array([rng.uniform(*DARK_THREAD_LEVELS), rng.uniform(*LIGHT_THREAD_LEVELS)])
    level_2 += (1 - strength) * ((level_2[0] + level_2[1]) / 2 - level_2)
    thread_2C = level_2[:, None] + rng.uniform(-MAX_THREAD_TINT, MAX_THREAD_TINT, size=(2, 3))
    return Cloth(
        weave=weave,
        turn=turn,
        period_px=rng.uniform(*periods_px),
        phase_2=rng.uniform(0, 2 * math.pi, size=2),
        thread_2C=thread_2C,
    )


def sample_figure_turn(rng: np.random.Generator) -> float:
    """Draw the rotation of a figure or a rag, in radians."""
    return math.radians(rng.uniform(-MAX_FIGURE_TURN_DEG, MAX_FIGURE_TURN_DEG))


def sample_ground_turn(rng: np.random.Generator) -> float:
    """Draw a rotation that figures never have, in radians."""
    return math.radians(rng.uniform(*GROUND_SLANT_RANGE_DEG)) * float(rng.choice((-1, 1)))


def generate_cloth_ground(
    size: tuple[int, int],
    periods_px: tuple[float, float],
    strength: float,
    rng: np.random.Generator,
) -> Floats:
    """Draw a ground of that height and width: a slanting cloth and, to the right of a random line,
    one of any rotation.

    `strength` is the share of a figure's contrast.
    """
    height, width = size
    across = rng.uniform(-0.2, 1.2, size=2)
    beyond_PD = np.array(
        [(across[0] * width, 0), (width, 0), (width, height), (across[1] * width, height)]
    )
    picture_HWC = (
        generate_cloth(Weave.BARS, sample_ground_turn(rng), periods_px, rng, strength)
        .compute_colours(size)
        .transpose(1, 2, 0)
    )
    draw_cloth_outline(
        picture_HWC,
        beyond_PD,
        generate_cloth(
            Weave.BARS, rng.uniform(-math.pi / 2, math.pi / 2), periods_px, rng, strength
        ),
    )
    return picture_HWC


def draw_cloth_outline(picture_HWC: Floats, points_PD: Floats, cloth: Cloth) -> None:
    """Paint an outline, in pixels, over what is there."""
    down, across = find_outline_window(points_PD, picture_HWC.shape[:2])
    size = (down.stop - down.start, across.stop - across.start)
    if not all(size):
        return
    window_CHW = picture_HWC.transpose(2, 0, 1)[:, down, across]
    # changed in place: half of the time goes into new arrays otherwise
    change_CHW = cloth.compute_colours(size)
    change_CHW -= window_CHW
    change_CHW *= compute_pixel_coverage(points_PD - (across.start, down.start), size)
    window_CHW += change_CHW


def draw_random_rag(
    picture_HWC: Floats,
    radius_px: tuple[float, float],
    periods_px: tuple[float, float],
    rng: np.random.Generator,
) -> None:
    """Lay a piece of cloth at a random position: a figure's weave and rotation, in an irregular
    outline.
    """
    height, width, _ = picture_HWC.shape
    outline_PD = build_polar_outline(
        rng.uniform(0.35, 1.0, size=rng.integers(*RAG_CORNERS_RANGE)).tolist(), rng.uniform(0, 360)
    )
    points_PD = outline_PD * rng.uniform(*radius_px) + rng.uniform((0, 0), (width, height))
    draw_cloth_outline(
        picture_HWC,
        points_PD,
        generate_cloth(
            tuple(Weave)[rng.integers(len(Weave))], sample_figure_turn(rng), periods_px, rng
        ),
    )


def apply_light_and_grain(picture_HWC: Floats, rng: np.random.Generator) -> Image.Image:
    """Apply uneven light and grain, and round to 8 bits."""
    lamp_HW1 = compute_shading(
        np.array([1 - LAMP_BRIGHTNESS_SHARE]),
        np.array([1 + LAMP_BRIGHTNESS_SHARE]),
        rng.uniform(0, 2 * math.pi),
        picture_HWC.shape[:2],
    )
    lit_HWC = np.ascontiguousarray(picture_HWC) * lamp_HW1  # the order of the grain and the image
    lit_HWC += rng.standard_normal(picture_HWC.shape, dtype=np.float32) * rng.uniform(
        *GRAIN_LEVELS_RANGE
    )
    return Image.fromarray(clamp_in_place(lit_HWC, 255).astype(np.uint8))
