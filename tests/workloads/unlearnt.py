"""Rules that learn nothing and must not reach a smoke target.

They get every advantage: several ways of separating figure from ground, two thresholds each, the nearest neighbours among labelled training
pictures, and of all these rules the score of the one that does best on the very pictures that are scored.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from scipy import ndimage

from suite import registry
from suite.rounds import Profile
from workloads.common.pictures import cloth

# Legend: N pictures or pieces, H height, W width, C channels, F features.
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Labels: TypeAlias = npt.NDArray[np.int64]
NEIGHBOURS: Final = 5
PIECE_PX: Final = 16
ORIENTATIONS: Final = 8


def target(workload: str) -> Mapping[str, float]:
    """Return the smoke target."""
    return registry.round().benchmark(workload).training[Profile.SMOKE].target


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the clutter: a light figure on a dark ground."""
    monkeypatch.setattr(cloth, "ground", lambda size, periods_px, strength, rng: np.full((*size, 3), 40.0))
    monkeypatch.setattr(cloth, "lay_rag", lambda *anything: None)
    monkeypatch.setattr(cloth, "DARK", (200.0, 240.0))
    monkeypatch.setattr(cloth, "LIGHT", (200.0, 240.0))


def maps(picture_HWC: Floats) -> Mapping[str, Floats]:
    """Return maps in which a figure may stand out: the higher, the likelier a figure."""
    grey_HW = picture_HWC @ (0.299, 0.587, 0.114)
    top_HW, spread_HW = picture_HWC.max(axis=2), np.ptp(picture_HWC, axis=2)
    found = {
        "brightness": grey_HW,
        "smoothed brightness": ndimage.gaussian_filter(grey_HW, 2.0),
        "saturation": spread_HW / np.maximum(top_HW, 1e-6),
        "away from the border's colour": np.linalg.norm(picture_HWC - np.median(border(picture_HWC), axis=0), axis=2),
        "away from the surroundings": np.linalg.norm(picture_HWC - ndimage.uniform_filter(picture_HWC, (25, 25, 0)), axis=2),
        "local contrast, fine": contrast(grey_HW, 5),
        "local contrast, coarse": contrast(grey_HW, 11),
        "local contrast, any colour": np.sqrt(sum(contrast(picture_HWC[..., c], 7) ** 2 for c in range(3))),
    }
    for sigma_px in (1.5, 2.5):
        found[f"level or upright edges, within {sigma_px} px"] = upright(grey_HW, sigma_px)
    for channel, name in enumerate(("red", "green", "blue")):
        found[name] = ndimage.gaussian_filter(picture_HWC[..., channel] - grey_HW, 1.0)
    return found


def border(picture_HWC: Floats) -> Floats:
    """Give the outermost pixels."""
    return np.concatenate([picture_HWC[0], picture_HWC[-1], picture_HWC[:, 0], picture_HWC[:, -1]])


def contrast(level_HW: Floats, window_px: int) -> Floats:
    """Compute the standard deviation around each pixel."""
    mean_HW = ndimage.uniform_filter(level_HW, window_px)
    found: Floats = np.sqrt(np.maximum(ndimage.uniform_filter(level_HW**2, window_px) - mean_HW**2, 0.0))
    return found


def upright(level_HW: Floats, sigma_px: float) -> Floats:
    """Compute whether the edges around each pixel are level or upright (1) or slanting (-1)."""
    down_HW, across_HW = np.gradient(ndimage.gaussian_filter(level_HW, 0.7))
    strength_HW = down_HW**2 + across_HW**2
    turned_HW = strength_HW * np.cos(4 * np.arctan2(down_HW, across_HW))
    found: Floats = ndimage.gaussian_filter(turned_HW, sigma_px) / (ndimage.gaussian_filter(strength_HW, sigma_px) + 1e-6)
    return found


def woven(picture_HWC: Floats) -> Mapping[str, Floats]:
    """Return maps made for these very scenes: the strength of edges, where they are level or upright and not slanting as the ground's are."""
    down_HW, across_HW = np.gradient(ndimage.gaussian_filter(picture_HWC @ (0.299, 0.587, 0.114), 0.7))
    found = {}
    for sigma_px in (1.5, 2.5):
        apart_HW, strength_HW = (ndimage.gaussian_filter(each, sigma_px) for each in (down_HW**2 - across_HW**2, down_HW**2 + across_HW**2))
        found[f"strength of level or upright edges, within {sigma_px} px"] = np.abs(apart_HW) / np.sqrt(np.maximum(strength_HW, 0) + 1e-6)
    return found


def otsu(level_HW: Floats) -> float:
    """Choose the level that parts the pixels best in two (Otsu 1979)."""
    counts, edges = np.histogram(level_HW, bins=64)
    centres, below = (edges[:-1] + edges[1:]) / 2, np.cumsum(counts)
    mass = np.cumsum(counts * centres)
    above = below[-1] - below
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (mass / below - (mass[-1] - mass) / above) ** 2
    return float(edges[1:][np.nanargmax(between)])


def masks(level_HW: Floats, shares: tuple[float, ...] = (0.0,)) -> Iterator[Flags]:
    """Cut a map at Otsu's level, moved by shares of the spread; each mask has less than half of the border."""
    level, spread = otsu(level_HW), level_HW.std()
    for share in shares:
        mask_HW = level_HW > level + share * spread
        edge = np.concatenate([mask_HW[0], mask_HW[-1], mask_HW[:, 0], mask_HW[:, -1]])
        yield ndimage.binary_opening(~mask_HW if edge.mean() > 0.5 else mask_HW)


def largest(mask_HW: Flags) -> Flags:
    """Keep the largest part that hangs together."""
    part_HW, count = ndimage.label(mask_HW)
    return np.equal(part_HW, 1 + np.bincount(part_HW.ravel())[1:].argmax()) if count else mask_HW


def cropped(level_HW: npt.NDArray[Any], mask_HW: Flags) -> Floats:
    """Cut a picture to where a mask is, and bring it to one size."""
    ys, xs = np.nonzero(mask_HW) if mask_HW.any() else np.nonzero(np.ones_like(mask_HW))
    piece = Image.fromarray(level_HW[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1].astype(np.float32))
    return np.asarray(piece.resize((PIECE_PX, PIECE_PX), Image.Resampling.BOX), dtype=np.float64)


def gradients(level_HW: Floats, *grids: int) -> list[Floats]:
    """Count the directions of edges in grids of so many cells a side, as HOG does (Dalal, Triggs 2005); opposite ones are one."""
    down_HW, across_HW = np.gradient(level_HW)
    turn_HW = (np.arctan2(down_HW, across_HW) / np.pi % 1.0 * ORIENTATIONS).astype(int) % ORIENTATIONS
    strength = np.hypot(down_HW, across_HW).ravel()
    found = []
    for cells in grids:
        rows, columns = (np.arange(side) * cells // side for side in level_HW.shape)
        place_HW = (rows[:, None] * cells + columns) * ORIENTATIONS + turn_HW
        counts = np.bincount(place_HW.ravel(), weights=strength, minlength=cells * cells * ORIENTATIONS)
        found.append(np.sqrt(counts / max(counts.sum(), 1e-9)))
    return found


def spectrum(level_HW: Floats) -> Floats:
    """Give the strengths of the coarse waves, wherever they lie."""
    found = np.abs(np.fft.fft2(level_HW - level_HW.mean()))[:13, :25]
    return np.log1p(found).ravel()


def features(picture_HWC: Floats) -> Mapping[str, Floats]:
    """Describe a whole picture in all ways, the figure cut out in each."""
    grey_HW = picture_HWC @ (0.299, 0.587, 0.114)
    edges, anywhere = gradients(grey_HW, 4, 1)
    found: dict[str, Floats] = {
        "pixels": cropped(grey_HW, np.ones_like(grey_HW, dtype=bool)).ravel(),
        "colours": np.concatenate([np.histogram(picture_HWC[..., c], bins=8, range=(0, 255))[0] for c in range(3)]) / grey_HW.size,
        "edges": edges,
        "edges, anywhere": anywhere,
        "spectrum": spectrum(grey_HW),
    }
    for name, level_HW in maps(picture_HWC).items():
        for cut, mask_HW in zip(("", ", higher"), masks(level_HW, (0.0, 0.5)), strict=True):
            figure_HW = largest(mask_HW)
            outline, (edges, anywhere) = cropped(figure_HW, figure_HW), gradients(cropped(grey_HW, figure_HW), 4, 1)
            found |= {f"outline by {name}{cut}": outline.ravel(), f"edges in {name}{cut}": edges}
            found[f"outline and edges by {name}{cut}"] = np.concatenate([outline.ravel() / PIECE_PX, edges, anywhere])
    return found


def nearest(train_NF: Floats, label_N: Labels, asked_NF: Floats, classes: int) -> Floats:
    """Give each class's share of the nearest neighbours."""
    distance_NN = (asked_NF**2).sum(axis=1)[:, None] - 2 * asked_NF @ train_NF.T + (train_NF**2).sum(axis=1)
    near_NK = np.argpartition(distance_NN, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    found: Floats = np.eye(classes)[label_N[near_NK]].mean(axis=1)
    return found


class Piece:
    """A connected part of a picture: its position and its features."""

    def __init__(self, picture_HWC: Floats, part_HW: Flags) -> None:
        ys, xs = np.nonzero(part_HW)
        self.box_4 = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1], dtype=np.float64)
        self.mask_HW = part_HW
        left, top, right, bottom = self.box_4.astype(int)
        window_HWC = picture_HWC[top:bottom, left:right]
        inner = cropped(window_HWC @ (0.299, 0.587, 0.114), np.ones(window_HWC.shape[:2], dtype=bool))
        colour_3 = window_HWC[part_HW[top:bottom, left:right]].mean(axis=0) / 255
        size_2 = (self.box_4[2:] - self.box_4[:2]) / min(part_HW.shape)
        self.feature_F = np.concatenate([cropped(part_HW, part_HW).ravel() / PIECE_PX, *gradients(inner, 2, 1), colour_3, size_2])


def pieces(picture_HWC: Floats, level_HW: Floats, least_px: int, share: float) -> Iterator[Piece]:
    """Cut a map into connected parts of an object's size."""
    for mask_HW in masks(level_HW, (share,)):
        part_HW, count = ndimage.label(mask_HW)
        areas = np.bincount(part_HW.ravel(), minlength=1)[1:]
        for number in range(count):
            if least_px <= areas[number] < 0.6 * part_HW.size:
                yield Piece(picture_HWC, ndimage.binary_fill_holes(part_HW == number + 1))


def overlaps(box_4: Floats, box_N4: Floats) -> Floats:
    """Compute intersection over union with each of several boxes."""
    low_N2, high_N2 = np.maximum(box_4[:2], box_N4[:, :2]), np.minimum(box_4[2:], box_N4[:, 2:])
    shared_N = np.clip(high_N2 - low_N2, 0, None).prod(axis=1)
    found: Floats = shared_N / ((box_4[2:] - box_4[:2]).prod() + (box_N4[:, 2:] - box_N4[:, :2]).prod(axis=1) - shared_N)
    return found


def label_of(piece: Piece, box_N4: Floats, label_N: Labels) -> int:
    """Say which object a piece is; 0 where none."""
    overlap_N = overlaps(piece.box_4, box_N4) if len(box_N4) else np.zeros(1)
    return int(label_N[overlap_N.argmax()]) if overlap_N.max() > 0.5 else 0
