"""COCO's masks: polygons and run lengths, compressed or not; validated here, because the C++ code
behind them does not.

Runs alternate from 0 to 1 in column order (down each column, columns from left to right). When
compressed, each number is written in
groups of five bits, lowest first, with a sixth bit if more follow, as characters from "0" on; from
the third number on, the
difference to the number two before is written (cocoapi, common/maskApi.c, rleToString). Imports no
framework: the judge runs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt
from faster_coco_eval.core import mask as library

# Legend: R runs, G groups of five bits, O objects, H height, W width.
Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.uint8]

FIRST_RUN_LETTER: Final = 48  # "0"
MORE_GROUPS_BIT, SIGN_BIT, GROUP_MASK, GROUP_BITS = 0x20, 0x10, 0x1F, 5
# in image sides: the library walks along an outline point by point, however far away it leads
MAX_POLYGON_REACH_SIDES: Final = 10.0
MAX_GROUPS_PER_NUMBER: Final = 12  # 60 bits: a number with more groups would not fit


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLengths:
    """Run lengths of a mask: compressed as text, or as plain numbers."""

    size: tuple[int, int]
    """Height and width."""
    counts: str | list[int]


Segmentation: TypeAlias = RunLengths | list[list[float]]
"""Run lengths, or polygons of x, y pairs, of one object."""
SEGMENTATION_DECODER: Final = msgspec.json.Decoder(Segmentation)


def decode_run_lengths(compressed: bytes) -> Integers:
    """Decode compressed run lengths; ValueError if they are invalid."""
    letter_G = np.frombuffer(compressed, dtype=np.uint8).astype(np.int64) - FIRST_RUN_LETTER
    if (
        not len(letter_G)
        or letter_G.min() < 0
        or letter_G.max() > 0x3F
        or letter_G[-1] & MORE_GROUPS_BIT
    ):
        raise ValueError("the run lengths are truncated or contain invalid letters")
    last_G = letter_G & MORE_GROUPS_BIT == 0
    first_R = np.flatnonzero(np.concatenate([[True], last_G[:-1]]))
    place_G = np.arange(len(letter_G)) - np.repeat(
        first_R, np.diff(np.append(first_R, len(letter_G)))
    )
    if place_G.max() >= MAX_GROUPS_PER_NUMBER:
        raise ValueError("a run length has too many letters")
    run_R = np.add.reduceat((letter_G & GROUP_MASK) << (GROUP_BITS * place_G), first_R)
    negative_R = letter_G[last_G] & SIGN_BIT != 0
    run_R -= np.where(negative_R, 1 << GROUP_BITS * (place_G[last_G] + 1), 0)
    for parity in (1, 2):  # from the third on, numbers are differences to the one two before
        run_R[parity::2] = np.cumsum(run_R[parity::2])
    return run_R


def check_run_lengths(run_R: Integers, height: int, width: int) -> None:
    """Reject, with ValueError, run lengths that do not fill an image."""
    if run_R.size and not 0 <= run_R.min() <= run_R.max() <= height * width:
        raise ValueError("a run length is negative or longer than the image")
    if int(run_R.sum()) != height * width:
        raise ValueError(f"the run lengths cover {int(run_R.sum())} pixels of {height} x {width}")


def check_segmentation(segmentation: Segmentation, height: int, width: int) -> None:
    """Reject, with ValueError, a segmentation that is invalid for an image of that size."""
    if not isinstance(segmentation, RunLengths):
        for polygon in segmentation:
            if len(polygon) % 2 or len(polygon) < 6:
                raise ValueError(
                    f"a polygon has {len(polygon)} numbers, but needs at least three pairs"
                )
            if max(map(abs, polygon)) > MAX_POLYGON_REACH_SIDES * max(height, width):
                raise ValueError(
                    f"a polygon is further from the image than {MAX_POLYGON_REACH_SIDES:.0f} times"
                    " its longer side"
                )
        return
    if segmentation.size != (height, width):
        raise ValueError(
            f"the run lengths are of {segmentation.size[0]} x {segmentation.size[1]} pixels, the"
            f" image has {height} x {width}"
        )
    counts = segmentation.counts
    if isinstance(counts, str):
        run_R = decode_run_lengths(counts.encode())
    else:
        run_R = np.array(counts, dtype=np.int64)
    check_run_lengths(run_R, height, width)


def decode_segmentation_mask(segmentation: Segmentation, height: int, width: int) -> Mask:
    """Draw an object's mask, H W of 0 and 1, from a checked segmentation. Run lengths of another
    size are cropped or zero-padded.
    """
    if isinstance(segmentation, RunLengths):
        encoded: Any = {"size": [*segmentation.size], "counts": segmentation.counts}
        if not isinstance(segmentation.counts, str):
            encoded = library.frPyObjects(encoded, *segmentation.size)
        return fit_mask_to_size(cast(Mask, library.decode(encoded)), height, width)
    if not segmentation:
        return np.zeros((height, width), dtype=np.uint8)
    return cast(
        Mask,
        library.decode(library.merge(cast(Any, library.frPyObjects(segmentation, height, width)))),
    )


def fit_mask_to_size(mask_HW: Mask, height: int, width: int) -> Mask:
    """Crop or zero-pad a mask to a size."""
    if mask_HW.shape == (height, width):
        return mask_HW
    found = np.zeros((height, width), dtype=np.uint8)
    part = mask_HW[:height, :width]
    found[: part.shape[0], : part.shape[1]] = part
    return found


def encode_masks(mask_OHW: Sequence[Mask] | Mask) -> list[bytes]:
    """Compress masks of 0 and 1 to run lengths."""
    if not len(mask_OHW):
        return []
    return encode_masks_by_column(np.stack(list(mask_OHW)).transpose(0, 2, 1))


def encode_masks_by_column(mask_OWH: npt.NDArray[Any]) -> list[bytes]:
    """Compress masks of 0 and 1 to run lengths, given as rows of columns.

    The library takes H W O in Fortran order, which is the same memory: an array of bytes without
    gaps is not copied.
    """
    if not len(mask_OWH):
        return []
    found: Any = library.encode(np.ascontiguousarray(mask_OWH, dtype=np.uint8).transpose(2, 1, 0))
    return [
        each["counts"].encode() if isinstance(each["counts"], str) else each["counts"]
        for each in found
    ]
