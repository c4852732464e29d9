"""DALI's input, made in a worker process: the files of a batch and the numbers of their views."""

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

from suite.input import Album, Change, View

# Legend: N pictures of a batch, F bytes of a file, 2 height and width.
K = TypeVar("K")
N = TypeVar("N")
C = TypeVar("C")
Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A view as DALI takes it, in the order top, left, bottom, right."""

    decoded: tuple[int, int, int, int]
    """Of the file: no more is decoded."""
    shown: tuple[float, float, float, float]
    """Of what is decoded."""
    size: tuple[int, int]
    """Height and width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll(Generic[C]):
    """One batch."""

    files_F: torch.Tensor
    """Side by side: one piece of shared memory on the way between processes."""
    ends: tuple[int, ...]
    cuts: tuple[Cut, ...]
    mirrored: tuple[bool, ...]
    changes: tuple[tuple[tuple[Change, float], ...], ...]
    notes: C

    def files(self) -> Iterator[Bytes]:
        """Yield each file's bytes."""
        files_F, start = self.files_F.numpy(), 0
        for end in self.ends:
            yield files_F[start:end]
            start = end


class Fetched(Dataset[tuple[Bytes, View, N]], Generic[K, N]):
    """Files by key, not decoded; only the header is read."""

    def __init__(self, album: Album[K, N, Any]) -> None:
        self.album = album

    def __getitem__(self, key: K) -> tuple[Bytes, View, N]:
        data = self.album.path(key).read_bytes()
        with Image.open(BytesIO(data)) as picture:
            view, note = self.album.view(key, picture.size)
        return np.frombuffer(data, dtype=np.uint8), view, note


class Rolled(Generic[N, C]):
    """Puts files side by side."""

    def __init__(self, album: Album[Any, N, C]) -> None:
        self.album = album

    def __call__(self, samples: Sequence[tuple[Bytes, View, N]]) -> Roll[C]:
        """Make one batch."""
        files, views, notes = zip(*samples, strict=True)
        return Roll(
            files_F=torch.from_numpy(np.concatenate(files)),
            ends=tuple(np.cumsum([len(file) for file in files]).tolist()),
            cuts=tuple(map(cut, views)),
            mirrored=tuple(view.mirrored for view in views),
            changes=tuple(view.changes for view in views),
            notes=self.album.together(notes),
        )


def cut(view: View) -> Cut:
    """Say what has to be decoded, and which part of that becomes the picture."""
    left, top, right, bottom = view.window or (0, 0, *view.extent)
    across, down = reach(view.box[::2], left, right, view.extent[0]), reach(view.box[1::2], top, bottom, view.extent[1])
    left_px, right_px = needed(across, view.box[::2], view.extent[0])
    top_px, bottom_px = needed(down, view.box[1::2], view.extent[1])
    shown = (down[0] - top_px, across[0] - left_px, down[1] - top_px, across[1] - left_px)
    return Cut(decoded=(top_px, left_px, bottom_px, right_px), shown=shown, size=(bottom - top, right - left))


def reach(side: tuple[int, ...], first: int, last: int, size: int) -> tuple[float, float]:
    """Return the part of the file that becomes the pixels from `first` to `last` where a side is resized to `size`."""
    start, end = side
    scale = (end - start) / size
    return start + first * scale, start + last * scale


def needed(part: tuple[float, float], limits: tuple[int, ...], size: int) -> tuple[int, int]:
    """Add what the filter reaches beyond a part: one pixel of the larger of the two pictures on either side, and one for rounding."""
    radius = 1 + max(1.0, (part[1] - part[0]) / size)
    return max(limits[0], math.floor(part[0] - radius)), min(limits[1], math.ceil(part[1] + radius))
