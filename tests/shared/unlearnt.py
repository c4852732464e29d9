"""Rules that learn nothing and must not reach a smoke target.

They get every advantage: several ways of separating figure from ground, two thresholds each, the
nearest neighbours among labelled training pictures, and of all these rules the score of the one
that does best on the very pictures that are scored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from scipy import ndimage

from suite import registry
from suite.rounds import Profile
from workloads.common.pictures import cloth

# Legend: N pictures or pieces, X one or several, M maps or masks, S masks, H height, W width, P
# PIECE_PX, C channels, E pixels, G cells and directions,
# F features.
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Labels: TypeAlias = npt.NDArray[np.int64]
Part: TypeAlias = tuple[tuple[slice, slice], Flags]
"""A window, and what belongs to a piece in it."""
NEIGHBOURS: Final = 5
AT_ONCE: Final = 64
"""Pictures or pieces whose distances to all others fit into a core's cache."""
PIECE_PX: Final = 16
ORIENTATIONS: Final = 8
"""A power of two."""
BINS: Final = 64
GREY_C: Final = (0.299, 0.587, 0.114)
NONE: Final = -1
"""No part's number."""
FOUR: Final = ndimage.generate_binary_structure(2, 1)
"""The four neighbours of a pixel."""
WITHIN: Final = np.pad(FOUR[None], ((1, 1), (0, 0), (0, 0)))
"""The same, all in its own mask."""


def target(workload: str) -> Mapping[str, float]:
    """Return the smoke target."""
    return registry.load_round().benchmark(workload).training[Profile.SMOKE].target


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the clutter: a light figure on a dark ground."""
    monkeypatch.setattr(
        cloth,
        "generate_cloth_ground",
        lambda size, periods_px, strength, rng: np.full((*size, 3), 40.0),
    )
    monkeypatch.setattr(cloth, "draw_random_rag", lambda *anything: None)
    monkeypatch.setattr(cloth, "DARK_THREAD_LEVELS", (200.0, 240.0))
    monkeypatch.setattr(cloth, "LIGHT_THREAD_LEVELS", (200.0, 240.0))


def maps(picture_XHWC: Floats) -> Mapping[str, Floats]:
    """Return maps in which a figure may stand out: the higher, the likelier a figure."""
    grey_XHW = picture_XHWC @ GREY_C
    channels = [picture_XHWC[..., c] for c in range(3)]
    top_XHW, least_XHW = (
        reduce(np.maximum, channels),
        reduce(np.minimum, channels),
    )  # along so short an axis, max takes forty times as long
    found = {
        "brightness": grey_XHW,
        "smoothed brightness": smoothed(grey_XHW, 2.0),
        "saturation": (top_XHW - least_XHW) / np.maximum(top_XHW, 1e-6),
        "away from the border's colour": np.linalg.norm(
            picture_XHWC - np.median(border(picture_XHWC), axis=-2)[..., None, None, :], axis=-1
        ),
        "away from the surroundings": np.linalg.norm(
            picture_XHWC - ndimage.uniform_filter(picture_XHWC, 25, axes=(-3, -2)), axis=-1
        ),
        "local contrast, fine": contrast(grey_XHW, 5),
        "local contrast, coarse": contrast(grey_XHW, 11),
        "local contrast, any colour": np.sqrt(
            sum(contrast(level_XHW, 7) ** 2 for level_XHW in channels)
        ),
    }
    found |= {
        f"level or upright edges, within {sigma_px} px": level_XHW
        for sigma_px, level_XHW in upright(grey_XHW, 1.5, 2.5)
    }
    found |= {
        name: smoothed(level_XHW - grey_XHW, 1.0)
        for name, level_XHW in zip(("red", "green", "blue"), channels, strict=True)
    }
    return found


def smoothed(level_XHW: Floats, sigma_px: float) -> Floats:
    """Smooth each map."""
    found: Floats = ndimage.gaussian_filter(level_XHW, sigma_px, axes=(-2, -1))
    return found


def border(picture_XHWC: Floats) -> Floats:
    """Give the outermost pixels."""
    sides = (
        picture_XHWC[..., 0, :, :],
        picture_XHWC[..., -1, :, :],
        picture_XHWC[..., 0, :],
        picture_XHWC[..., -1, :],
    )
    return np.concatenate(sides, axis=-2)


def contrast(level_XHW: Floats, window_px: int) -> Floats:
    """Compute the standard deviation around each pixel."""
    mean_XHW, square_XHW = (
        ndimage.uniform_filter(each, window_px, axes=(-2, -1)) for each in (level_XHW, level_XHW**2)
    )
    found: Floats = np.sqrt(np.maximum(square_XHW - mean_XHW**2, 0.0))
    return found


def upright(level_XHW: Floats, *sigmas_px: float) -> Iterator[tuple[float, Floats]]:
    """Compute whether the edges around each pixel are level or upright (1) or slanting (-1), within
    several distances.
    """
    down_XHW, across_XHW = np.gradient(smoothed(level_XHW, 0.7), axis=(-2, -1))
    strength_XHW = down_XHW**2 + across_XHW**2
    apart_XHW = down_XHW**2 - across_XHW**2
    turned_XHW = (
        2 * apart_XHW**2 / np.maximum(strength_XHW, 1e-30) - strength_XHW
    )  # strength * cos(4 * the edge's angle)
    for sigma_px in sigmas_px:
        yield sigma_px, smoothed(turned_XHW, sigma_px) / (smoothed(strength_XHW, sigma_px) + 1e-6)


def woven(picture_HWC: Floats) -> Mapping[str, Floats]:
    """Return maps made for these very scenes: the strength of edges, where they are level or
    upright and not slanting as the ground's are.
    """
    down_HW, across_HW = np.gradient(ndimage.gaussian_filter(picture_HWC @ GREY_C, 0.7))
    found = {}
    for sigma_px in (1.5, 2.5):
        apart_HW, strength_HW = (
            ndimage.gaussian_filter(each, sigma_px)
            for each in (down_HW**2 - across_HW**2, down_HW**2 + across_HW**2)
        )
        found[f"strength of level or upright edges, within {sigma_px} px"] = np.abs(
            apart_HW
        ) / np.sqrt(np.maximum(strength_HW, 0) + 1e-6)
    return found


def otsu(level_MHW: Floats) -> Floats:
    """Choose the level of each map that parts its pixels best in two (Otsu 1979)."""
    low_M, high_M = level_MHW.min(axis=(1, 2)), level_MHW.max(axis=(1, 2))
    width_M = np.maximum(high_M - low_M, 1e-9) / BINS
    bin_MHW = np.minimum(
        ((level_MHW - low_M[:, None, None]) / width_M[:, None, None]).astype(int), BINS - 1
    )
    counts = np.bincount(
        (bin_MHW + BINS * np.arange(len(low_M))[:, None, None]).ravel(), minlength=BINS * len(low_M)
    ).reshape(-1, BINS)
    centres, below = (
        low_M[:, None] + width_M[:, None] * (np.arange(BINS) + 0.5),
        np.cumsum(counts, axis=1),
    )
    mass = np.cumsum(counts * centres, axis=1)
    above = below[:, -1:] - below
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (mass / below - (mass[:, -1:] - mass) / above) ** 2
    found: Floats = low_M + width_M * (1 + np.nan_to_num(between, nan=-1.0).argmax(axis=1))
    return found


def masks(level_MHW: Floats, shares: tuple[float, ...]) -> Flags:
    """Cut each map at Otsu's level, moved by shares of the spread, all maps with the first share
    first; a mask has less than half of the border.
    """
    level_M, spread_M = otsu(level_MHW), level_MHW.std(axis=(1, 2))
    mask_SHW = np.concatenate(
        [level_MHW > (level_M + share * spread_M)[:, None, None] for share in shares]
    )
    edge_SE = np.concatenate(
        [mask_SHW[:, 0], mask_SHW[:, -1], mask_SHW[:, :, 0], mask_SHW[:, :, -1]], axis=1
    )
    return opened(mask_SHW ^ (edge_SE.mean(axis=1) > 0.5)[:, None, None])


def opened(mask_SHW: Flags) -> Flags:
    """Erode and dilate each mask by a cross; outside nothing is set."""
    return reduce(np.logical_or, crosses(reduce(np.logical_and, crosses(mask_SHW))))


def crosses(mask_SHW: Flags) -> tuple[Flags, ...]:
    """Return each pixel and its four neighbours."""
    wide_SHW = np.pad(mask_SHW, ((0, 0), (1, 1), (1, 1)))
    inner_SHW, rows_SHW = wide_SHW[:, :, 1:-1], wide_SHW[:, 1:-1]
    return (
        inner_SHW[:, 1:-1],
        inner_SHW[:, :-2],
        inner_SHW[:, 2:],
        rows_SHW[..., :-2],
        rows_SHW[..., 2:],
    )


def largest(mask_MHW: Flags) -> Flags:
    """Keep the largest part that hangs together, of each mask."""
    part_MHW, _ = ndimage.label(mask_MHW, WITHIN)
    areas, kept, first = np.bincount(part_MHW.ravel()), [], 1
    for last in part_MHW.max(axis=(1, 2)).tolist():  # parts are numbered from mask to mask
        kept.append(first + int(areas[first : last + 1].argmax()) if last else NONE)
        first = max(first, last + 1)
    found: Flags = part_MHW == np.array(kept)[:, None, None]
    return found


@cache
def shrunk(first: int, end: int, length: int) -> Floats:
    """Return what cuts a line of that length and makes the piece one of PIECE_PX by averages, as a
    matrix.
    """
    every = Image.fromarray(np.eye(end - first, dtype=np.float32))
    found = np.zeros((PIECE_PX, length))
    found[:, first:end] = every.resize((end - first, PIECE_PX), Image.Resampling.BOX)
    return found


def within(flag_ML: Flags) -> Floats:
    """Return the matrices that cut lines to where they are set, all of a line where it is nowhere,
    and bring them to PIECE_PX.
    """
    length = flag_ML.shape[1]
    first_M, end_M = flag_ML.argmax(axis=1), length - flag_ML[:, ::-1].argmax(axis=1)
    return np.stack(
        [
            shrunk(first, end, length)
            for first, end in zip(first_M.tolist(), end_M.tolist(), strict=True)
        ]
    )


def windows(mask_MHW: Flags) -> tuple[Floats, Floats]:
    """Return the matrices that cut each map to where its mask is, and bring it to one size: from
    the left, down, and from the right, across.
    """
    return within(mask_MHW.any(axis=2)), within(mask_MHW.any(axis=1)).swapaxes(1, 2)


def gradients(level_MHW: Floats, *grids: int) -> list[Floats]:
    """Count the directions of edges in grids of so many cells a side, as HOG does (Dalal, Triggs
    2005); opposite ones are one.
    """
    down_MHW, across_MHW = np.gradient(level_MHW, axis=(1, 2))
    turn_MHW = np.floor(np.arctan2(down_MHW, across_MHW) * (ORIENTATIONS / np.pi)).astype(int) & (
        ORIENTATIONS - 1
    )
    strength = np.sqrt(down_MHW**2 + across_MHW**2).ravel()
    found = []
    for cells in grids:
        size = cells * cells * ORIENTATIONS
        rows, columns = (np.arange(side) * cells // side for side in level_MHW.shape[1:])
        place_MHW = (
            (rows[:, None] * cells + columns) * ORIENTATIONS
            + turn_MHW
            + np.arange(len(level_MHW))[:, None, None] * size
        )
        count_MG = np.bincount(
            place_MHW.ravel(), weights=strength, minlength=len(level_MHW) * size
        ).reshape(-1, size)
        found.append(np.sqrt(count_MG / np.maximum(count_MG.sum(axis=1, keepdims=True), 1e-9)))
    return found


def spectrum(level_NHW: Floats) -> Floats:
    """Give the strengths of the coarse waves, wherever they lie."""
    found = np.abs(np.fft.fft2(level_NHW - level_NHW.mean(axis=(1, 2), keepdims=True)))[:, :13, :25]
    return np.log1p(found).reshape(len(level_NHW), -1)


def colours(picture_NHWC: Floats) -> Floats:
    """Count the levels of each colour in eighths, as shares."""
    pictures, pixels = len(picture_NHWC), picture_NHWC[0, ..., 0].size
    place_NEC = (
        (picture_NHWC.reshape(pictures, pixels, 3) / 32).astype(int)
        + 8 * np.arange(3)
        + 24 * np.arange(pictures)[:, None, None]
    )
    return np.bincount(place_NEC.ravel(), minlength=24 * pictures).reshape(pictures, 24) / pixels


def features(picture_NHWC: Floats) -> Mapping[str, Floats]:
    """Describe whole pictures in all ways, the figure cut out in each; a row for each picture."""
    grey_NHW, pictures = picture_NHWC @ GREY_C, len(picture_NHWC)
    edge_NF, anywhere_NF = gradients(grey_NHW, 4, 1)
    found: dict[str, Floats] = {
        "pixels": np.stack([resized(grey_HW) for grey_HW in grey_NHW]).reshape(pictures, -1),
        "colours": colours(picture_NHWC),
        "edges": edge_NF,
        "edges, anywhere": anywhere_NF,
        "spectrum": spectrum(grey_NHW),
    }
    seen = maps(picture_NHWC)
    figure_MHW = largest(masks(np.concatenate([*seen.values()]), (0.0, 0.5)))
    down_MPH, across_MWP = windows(figure_MHW)
    outline_MF = (down_MPH @ figure_MHW.astype(np.float64) @ across_MWP).reshape(
        len(figure_MHW), -1
    )
    cut_MPW = (down_MPH.reshape(-1, pictures, *down_MPH.shape[1:]) @ grey_NHW).reshape(
        len(figure_MHW), PIECE_PX, -1
    )
    edge_MF, anywhere_MF = gradients(cut_MPW @ across_MWP, 4, 1)
    both_MF = np.concatenate([outline_MF / PIECE_PX, edge_MF, anywhere_MF], axis=1)
    for number, name in enumerate(f"{name}{cut}" for cut in ("", ", higher") for name in seen):
        rows = slice(number * pictures, (number + 1) * pictures)
        found |= {
            f"outline by {name}": outline_MF[rows],
            f"edges in {name}": edge_MF[rows],
            f"outline and edges by {name}": both_MF[rows],
        }
    return found


def nearest(train_NF: Floats, label_N: Labels, asked_NF: Floats, classes: int) -> Floats:
    """Give each class's share of the nearest neighbours."""
    train, asked = torch.from_numpy(train_NF), torch.from_numpy(asked_NF)
    own_N = train.square().sum(dim=1)
    apart = (
        torch.addmm(own_N, part, train.T, alpha=-2) for part in asked.split(AT_ONCE)
    )  # less the square of what is asked, alike for all
    near_NK = torch.cat(
        [distance.topk(NEIGHBOURS, largest=False, sorted=False).indices for distance in apart]
    ).numpy()
    found: Floats = np.eye(classes)[label_N[near_NK]].mean(axis=1)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A connected part of a picture: its position and its features."""

    box_4: Floats
    mask_HW: Flags
    feature_F: Floats


def pieces(
    picture_HWC: Floats, level_MHW: Floats, least_px: int, shares: tuple[float, ...]
) -> Iterator[tuple[int, Piece]]:
    """Cut maps into connected parts of an object's size, their holes filled; each with the number
    of its mask, which `masks` counts.
    """
    found = [
        (number, part)
        for number, mask_HW in enumerate(masks(level_MHW, shares))
        for part in parts(mask_HW, least_px)
    ]
    for (number, (window, filled_HW)), feature_F in zip(
        found, described(picture_HWC, [part for _, part in found]), strict=True
    ):
        (top, bottom), (left, right) = ((side.start, side.stop) for side in window)
        mask_HW = np.zeros(picture_HWC.shape[:2], dtype=bool)
        mask_HW[window] = filled_HW
        yield (
            number,
            Piece(
                box_4=np.array([left, top, right, bottom], dtype=np.float64),
                mask_HW=mask_HW,
                feature_F=feature_F,
            ),
        )


def parts(mask_HW: Flags, least_px: int) -> Iterator[Part]:
    """Give the connected parts of a mask that may be objects, each in its window."""
    part_HW, _ = ndimage.label(mask_HW, FOUR)
    areas = np.bincount(part_HW.ravel())
    for number, window in enumerate(ndimage.find_objects(part_HW), 1):
        if least_px <= areas[number] < 0.6 * part_HW.size:
            yield window, filled(part_HW[window] == number)


def filled(part_HW: Flags) -> Flags:
    """Fill what cannot be reached from outside."""
    height, width = part_HW.shape
    around_HW = np.ones((height + 2, width + 2), dtype=bool)
    around_HW[1:-1, 1:-1] = ~part_HW
    found: Flags = (
        ndimage.label(around_HW, FOUR)[0][1:-1, 1:-1] != 1
    )  # parts are numbered from the first corner, which is outside
    return found


def described(picture_HWC: Floats, found: Sequence[Part]) -> Floats:
    """Describe pieces; a row for each."""
    if not found:
        return np.zeros((0, 0))
    grey_HW = picture_HWC @ GREY_C
    shape_NPP = np.stack([resized(part_HW) for _, part_HW in found])
    inner_NPP = np.stack([resized(grey_HW[window]) for window, _ in found])
    colour_N3 = (
        np.stack([picture_HWC[window][part_HW].mean(axis=0) for window, part_HW in found]) / 255
    )
    size_N2 = np.array([part_HW.shape[::-1] for _, part_HW in found]) / min(grey_HW.shape)
    return np.concatenate(
        [
            shape_NPP.reshape(len(found), -1) / PIECE_PX,
            *gradients(inner_NPP, 2, 1),
            colour_N3,
            size_N2,
        ],
        axis=1,
    )


def resized(level_HW: npt.NDArray[Any]) -> Floats:
    """Bring a map to PIECE_PX by averages."""
    height, width = level_HW.shape
    found: Floats = (
        shrunk(0, height, height) @ level_HW.astype(np.float64) @ shrunk(0, width, width).T
    )
    return found


def overlaps(box_4: Floats, box_N4: Floats) -> Floats:
    """Compute intersection over union with each of several boxes."""
    low_N2, high_N2 = np.maximum(box_4[:2], box_N4[:, :2]), np.minimum(box_4[2:], box_N4[:, 2:])
    shared_N = np.clip(high_N2 - low_N2, 0, None).prod(axis=1)
    found: Floats = shared_N / (
        (box_4[2:] - box_4[:2]).prod() + (box_N4[:, 2:] - box_N4[:, :2]).prod(axis=1) - shared_N
    )
    return found


def label_of(piece: Piece, box_N4: Floats, label_N: Labels) -> int:
    """Say which object a piece is; 0 where none."""
    overlap_N = overlaps(piece.box_4, box_N4) if len(box_N4) else np.zeros(1)
    return int(label_N[overlap_N.argmax()]) if overlap_N.max() > 0.5 else 0
