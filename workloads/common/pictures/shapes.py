"""Outlines, shading and smooth edges for rendering the embedded images."""

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

OUTLINE_OVERSAMPLING: Final = 2  # drawn larger and averaged for smooth edges


def build_polar_outline(radii: list[float], start_deg: float = -90.0) -> Floats:
    """Return an outline from the distances of its corners to the centre, at equal angles."""
    step = 2 * math.pi / len(radii)
    start = math.radians(start_deg)
    return np.array(
        [
            (r * math.cos(start + i * step), r * math.sin(start + i * step))
            for i, r in enumerate(radii)
        ]
    )


def _build_regular_outline(corners: int) -> Floats:
    return build_polar_outline([1.0] * corners)


def _build_outline(*pairs: tuple[float, float]) -> Floats:
    return np.array(pairs)


OUTLINES_PD: Final[Mapping[str, Floats]] = {
    "circle": _build_regular_outline(48) * 0.85,
    "cross": _build_outline(
        (-0.3, -1),
        (0.3, -1),
        (0.3, -0.3),
        (1, -0.3),
        (1, 0.3),
        (0.3, 0.3),
        (0.3, 1),
        (-0.3, 1),
        (-0.3, 0.3),
        (-1, 0.3),
        (-1, -0.3),
        (-0.3, -0.3),
    ),
    "ring": np.concatenate(
        [build_polar_outline([0.95] * 49, 0.0), build_polar_outline([0.5] * 49, 0.0)[::-1]]
    ),
    "square": _build_outline((-0.75, -0.75), (0.75, -0.75), (0.75, 0.75), (-0.75, 0.75)),
    "star": build_polar_outline([1.0, 0.42] * 5),
    "triangle": _build_regular_outline(3),
}


def compute_shading(start: Floats, end: Floats, turn: float, size: tuple[int, int]) -> Floats:
    """Shade from one colour to another across an image of that height and width."""
    down_H, across_W = (np.linspace(-0.5, 0.5, side) for side in size)
    share_HW = np.clip(
        across_W[None, :] * math.cos(turn) + down_H[:, None] * math.sin(turn) + 0.5, 0, 1
    )
    found: Floats = start + (end - start) * share_HW[..., None]
    return found


def compute_pixel_coverage(points_PD: Floats, size: tuple[int, int]) -> Floats:
    """Return the fraction of each pixel inside an outline, 0-1, for an image of that height and
    width; points in pixels.
    """
    height, width = size
    canvas = Image.new("L", (width * OUTLINE_OVERSAMPLING, height * OUTLINE_OVERSAMPLING))
    ImageDraw.Draw(canvas).polygon((points_PD * OUTLINE_OVERSAMPLING).ravel().tolist(), fill=255)
    found: Floats = np.asarray(canvas.reduce(OUTLINE_OVERSAMPLING)) / 255.0
    return found


def compute_inside_mask(points_PD: Floats, size: tuple[int, int]) -> Flags:
    """Return which pixels of an image of that height and width have their centre inside an
    outline; points in pixels.

    Uses the even-odd rule, in arithmetic that is the same everywhere: annotations must not depend
    on a library's rasteriser.
    """
    down, across = find_outline_window(points_PD, size)
    down_H1, across_W1 = (
        np.arange(part.start, part.stop)[:, None] + 0.5 for part in (down, across)
    )
    (x_P, y_P), (next_x_P, next_y_P) = points_PD.T, np.roll(points_PD, -1, axis=0).T
    crossed_HP = (y_P > down_H1) != (next_y_P > down_H1)
    rise_P = np.where(next_y_P == y_P, 1.0, next_y_P - y_P)
    at_HP = np.where(crossed_HP, x_P + (down_H1 - y_P) * (next_x_P - x_P) / rise_P, -1.0)
    most = int(crossed_HP.sum(axis=1).max(initial=0))  # a row crosses few of an outline's edges
    found: Flags = np.zeros(size, dtype=bool)
    found[down, across] = np.logical_xor.reduce(
        np.sort(at_HP, axis=1)[:, None, -most:] > across_W1, axis=2
    )
    return found


def find_outline_window(points_PD: Floats, size: tuple[int, int]) -> tuple[slice, slice]:
    """Return the rows and columns around an outline, in an image of that height and width; none
    outside it.
    """
    (left, top), (right, bottom) = points_PD.min(axis=0).tolist(), points_PD.max(axis=0).tolist()
    edges = zip((top, left), (bottom, right), size, strict=True)
    down, across = (
        slice(min(max(math.floor(low), 0), side), min(max(math.ceil(high), 0), side))
        for low, high, side in edges
    )
    return down, across
