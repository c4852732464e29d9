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

OVERSAMPLING: Final = 2  # drawn larger and averaged for smooth edges


def _polar(radii: list[float], start_deg: float = -90.0) -> Floats:
    step = 2 * math.pi / len(radii)
    start = math.radians(start_deg)
    return np.array([(r * math.cos(start + i * step), r * math.sin(start + i * step)) for i, r in enumerate(radii)])


def _regular(corners: int) -> Floats:
    return _polar([1.0] * corners)


def _crescent() -> Floats:
    outer = [(math.cos(a), math.sin(a)) for a in np.linspace(0.6, 2 * math.pi - 0.6, 40)]
    inner = [(0.4 + 0.72 * math.cos(a), 0.72 * math.sin(a)) for a in np.linspace(2 * math.pi - 0.9, 0.9, 40)]
    return np.array(outer + inner)


def _heart() -> Floats:
    angles = np.linspace(0, 2 * math.pi, 60, endpoint=False)
    x = 16 * np.sin(angles) ** 3
    y = 13 * np.cos(angles) - 5 * np.cos(2 * angles) - 2 * np.cos(3 * angles) - np.cos(4 * angles)
    return np.stack([x, -y], axis=1) / 17.0


def _points(*pairs: tuple[float, float]) -> Floats:
    return np.array(pairs)


OUTLINES_PD: Final[Mapping[str, Floats]] = {
    "arrow": _points((-1, -0.3), (0.1, -0.3), (0.1, -0.8), (1, 0), (0.1, 0.8), (0.1, 0.3), (-1, 0.3)),
    "bolt": _points((0.2, -1), (-0.7, 0.2), (-0.1, 0.2), (-0.3, 1), (0.7, -0.3), (0.1, -0.3), (0.5, -1)),
    "circle": _regular(48) * 0.85,
    "crescent": _crescent(),
    "cross": _points((-0.3, -1), (0.3, -1), (0.3, -0.3), (1, -0.3), (1, 0.3), (0.3, 0.3),
                     (0.3, 1), (-0.3, 1), (-0.3, 0.3), (-1, 0.3), (-1, -0.3), (-0.3, -0.3)),
    "ell": _points((-0.7, -1), (-0.1, -1), (-0.1, 0.4), (0.7, 0.4), (0.7, 1), (-0.7, 1)),
    "heart": _heart(),
    "ring": np.concatenate([_polar([0.95] * 49, 0.0), _polar([0.5] * 49, 0.0)[::-1]]),
    "rod": _points((-1, -0.28), (1, -0.28), (1, 0.28), (-1, 0.28)),
    "square": _points((-0.75, -0.75), (0.75, -0.75), (0.75, 0.75), (-0.75, 0.75)),
    "star": _polar([1.0, 0.42] * 5),
    "triangle": _regular(3),
}


def shaded(start: Floats, end: Floats, turn: float, size: tuple[int, int]) -> Floats:
    """Shade from one colour to another across a picture of that height and width."""
    down_H, across_W = (np.linspace(-0.5, 0.5, side) for side in size)
    share_HW = np.clip(across_W[None, :] * math.cos(turn) + down_H[:, None] * math.sin(turn) + 0.5, 0, 1)
    found: Floats = start + (end - start) * share_HW[..., None]
    return found


def coverage(points_PD: Floats, size: tuple[int, int]) -> Floats:
    """Return the fraction of each pixel inside an outline, 0-1, for a picture of that height and width; points in pixels."""
    height, width = size
    canvas = Image.new("L", (width * OVERSAMPLING, height * OVERSAMPLING))
    corners = [(float(x), float(y)) for x, y in points_PD * OVERSAMPLING]
    ImageDraw.Draw(canvas).polygon(corners, fill=255)
    return np.asarray(canvas.reduce(OVERSAMPLING), dtype=np.float64) / 255


def inside(points_PD: Floats, size: tuple[int, int]) -> Flags:
    """Return which pixels of a picture of that height and width have their centre inside an outline; points in pixels.

    Uses the even-odd rule, in arithmetic that is the same everywhere: annotations must not depend on a library's rasteriser.
    """
    down_H1, across_W1 = (np.arange(side)[:, None] + 0.5 for side in size)
    (x_P, y_P), (next_x_P, next_y_P) = points_PD.T, np.roll(points_PD, -1, axis=0).T
    crossed_HP = (y_P > down_H1) != (next_y_P > down_H1)
    rise_P = np.where(next_y_P == y_P, 1.0, next_y_P - y_P)
    at_HP = np.where(crossed_HP, x_P + (down_H1 - y_P) * (next_x_P - x_P) / rise_P, -1.0)
    found: Flags = (at_HP[:, None, :] > across_W1).sum(axis=2) % 2 == 1
    return found
