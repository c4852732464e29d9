"""The embedded data: twelve kinds of shapes, rendered to JPEGs in ImageNet's own layout.

Each picture is a function of (split, class, number) alone: place, size, turn, colours, shading and noise are
drawn from its own generator. Nothing but the outline tells the classes apart, so a linear classifier on the
pixels stays at chance.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.
Floats = npt.NDArray[np.float64]

VERSION: Final = 2  # part of the cache folder's name: other pictures are another folder
SIDE_PX: Final = 80
OVERSAMPLING: Final = 2  # drawn larger and averaged, so that edges are smooth
MOST_TURN_DEG: Final = 20.0
JPEG_QUALITY: Final = 88
PER_CLASS: Final[Mapping[str, int]] = {"train": 400, "val": 84}


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
CLASSES: Final = tuple(sorted(OUTLINES_PD))


def _placed(outline_PD: Floats, rng: np.random.Generator) -> Floats:
    """Turned, squeezed a little, sized and put somewhere, in units of the picture's side."""
    turn = math.radians(rng.uniform(-MOST_TURN_DEG, MOST_TURN_DEG))
    rotation = np.array([(math.cos(turn), -math.sin(turn)), (math.sin(turn), math.cos(turn))])
    squeeze = np.array([1.0, rng.uniform(0.85, 1.0)])
    radius = rng.uniform(0.30, 0.44)
    centre = rng.uniform(radius, 1 - radius, size=2)
    placed: Floats = (outline_PD * squeeze) @ rotation.T * radius + centre
    return placed


def _colours(rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Two ends of a shaded background and a colour for the shape: light on dark or dark on light.

    Were the shape always the lighter one, a linear classifier would find two of three from the place of the light alone.
    """
    start, end = rng.uniform(0, 110, size=(2, 3))
    shape = rng.uniform(130, 255, size=3)
    return (255 - start, 255 - end, 255 - shape) if rng.random() < 0.5 else (start, end, shape)


def _shaded(start: Floats, end: Floats, turn: float, side: int) -> Floats:
    ramp = np.linspace(-0.5, 0.5, side)
    share_HW = np.clip(ramp[None, :] * math.cos(turn) + ramp[:, None] * math.sin(turn) + 0.5, 0, 1)
    shaded: Floats = start + (end - start) * share_HW[..., None]
    return shaded


def _mask(points_PD: Floats, side: int) -> Floats:
    canvas = Image.new("L", (side * OVERSAMPLING, side * OVERSAMPLING))
    corners = [(float(x), float(y)) for x, y in points_PD * side * OVERSAMPLING]
    ImageDraw.Draw(canvas).polygon(corners, fill=255)
    return np.asarray(canvas.reduce(OVERSAMPLING), dtype=np.float64) / 255


def render(split: str, label: int, number: int) -> Image.Image:
    """One picture, the same one on every machine."""
    rng = np.random.default_rng([VERSION, list(PER_CLASS).index(split), label, number])
    start, end, shape = _colours(rng)
    background_HWC = _shaded(start, end, rng.uniform(0, 2 * math.pi), SIDE_PX)
    mask_HW1 = _mask(_placed(OUTLINES_PD[CLASSES[label]], rng), SIDE_PX)[..., None]
    picture_HWC = background_HWC * (1 - mask_HW1) + shape * mask_HW1
    picture_HWC += rng.normal(0, rng.uniform(2, 10), size=picture_HWC.shape)
    return Image.fromarray(np.clip(picture_HWC, 0, 255).astype(np.uint8))


def write(folder: Path) -> None:
    """All pictures as `train/<class>/<name>.JPEG` and `val/<class>/<name>.JPEG`."""
    for split, count in PER_CLASS.items():
        for label, name in enumerate(CLASSES):
            target = folder / split / name
            target.mkdir(parents=True)
            for number in range(count):
                render(split, label, number).save(target / f"{name}_{number:05d}.JPEG", "JPEG", quality=JPEG_QUALITY)
