"""DALI's input, prepared in a worker process: the files of a batch and the numbers of their
views.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset

from suite.input import Album, View

# Legend: N images of a batch, F bytes of a file, 2 height and width.
K = TypeVar("K")
N = TypeVar("N")
C = TypeVar("C")
Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaliCut:
    """A view in DALI's form, in the order top, left, bottom, right."""

    decoded: tuple[int, int, int, int]
    """Region of the file to decode."""
    shown: tuple[float, float, float, float]
    """Region of the decoded part to show."""
    size: tuple[int, int]
    """Height and width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaliBatch(Generic[C]):
    """One batch."""

    files_F: torch.Tensor
    """Concatenated into one block of shared memory for the transfer between processes."""
    ends: tuple[int, ...]
    cuts: tuple[DaliCut, ...]
    mirrored: tuple[bool, ...]
    notes: C

    def iterate_files(self) -> Iterator[Bytes]:
        """Yield each file's bytes."""
        files_F, start = self.files_F.numpy(), 0
        for end in self.ends:
            yield files_F[start:end]
            start = end


class UndecodedFiles(Dataset[tuple[Bytes, View, N]], Generic[K, N]):
    """Undecoded files by key; only the header is parsed."""

    def __init__(self, album: Album[K, N, Any]) -> None:
        self.album = album

    def __getitem__(self, key: K) -> tuple[Bytes, View, N]:
        data = self.album.path(key).read_bytes()
        with Image.open(BytesIO(data)) as picture:
            view, note = self.album.view(key, picture.size)
        return np.frombuffer(data, dtype=np.uint8), view, note


class DaliBatchCollator(Generic[N, C]):
    """Concatenates files into a batch."""

    def __init__(self, album: Album[Any, N, C]) -> None:
        self.album = album

    def __call__(self, samples: Sequence[tuple[Bytes, View, N]]) -> DaliBatch[C]:
        """Collate one batch."""
        files, views, notes = zip(*samples, strict=True)
        return DaliBatch(
            files_F=torch.from_numpy(np.concatenate(files)),
            ends=tuple(np.cumsum([len(file) for file in files]).tolist()),
            cuts=tuple(map(compute_dali_cut, views)),
            mirrored=tuple(view.mirrored for view in views),
            notes=self.album.together(notes),
        )


def compute_dali_cut(view: View) -> DaliCut:
    """Return the region to decode, and which part of it becomes the image."""
    left, top, right, bottom = view.window or (0, 0, *view.extent)
    across, down = (
        compute_source_span(view.box[::2], left, right, view.extent[0]),
        compute_source_span(view.box[1::2], top, bottom, view.extent[1]),
    )
    left_px, right_px = extend_by_filter_support(across, view.box[::2], view.extent[0])
    top_px, bottom_px = extend_by_filter_support(down, view.box[1::2], view.extent[1])
    shown = (down[0] - top_px, across[0] - left_px, down[1] - top_px, across[1] - left_px)
    return DaliCut(
        decoded=(top_px, left_px, bottom_px, right_px),
        shown=shown,
        size=(bottom - top, right - left),
    )


def compute_source_span(
    side: tuple[int, ...], first: int, last: int, size: int
) -> tuple[float, float]:
    """Return the part of the file that maps to the pixels from `first` to `last` when a side is
    resized to `size`.
    """
    start, end = side
    scale = (end - start) / size
    return start + first * scale, start + last * scale


def extend_by_filter_support(
    part: tuple[float, float], limits: tuple[int, ...], size: int
) -> tuple[int, int]:
    """Extend a part by the filter's support: one pixel of the larger of the two images on either
    side, and one for rounding.
    """
    radius = 1 + max(1.0, (part[1] - part[0]) / size)
    return max(limits[0], math.floor(part[0] - radius)), min(limits[1], math.ceil(part[1] + radius))
