"""Image files with a fixed view, for inference and calibration."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import torch

from suite.input import Extent, Reader, View
from workloads.common.pictures.decoding import normalise_pictures

# Legend: N images of a batch, C 3 colour channels, H height, W width.
PICTURES_PER_READ: Final = 32
"""Images that are read together."""


class PictureFiles:
    """An album of files by path; `view` must pickle."""

    def __init__(self, view: Callable[[Extent], View]) -> None:
        self._view = view

    def path(self, key: Path) -> Path:
        """Return the path itself."""
        return key

    def view(self, key: Path, extent: Extent) -> tuple[View, None]:
        """Return the view of a file, without a target."""
        return self._view(extent), None

    def together(self, notes: Sequence[None]) -> None:
        """Return None: these files have no targets."""


def iterate_normalised_pictures(
    reader: Reader[Path, None], paths: Sequence[Path]
) -> Iterator[torch.Tensor]:
    """Yield each file's image, 1 C H W, on the device on which the pipeline left it."""
    for picture_NHWC, _ in reader.read(split_paths(paths)):
        yield from normalise_pictures(picture_NHWC).contiguous()[:, None]


def iterate_byte_pictures(
    reader: Reader[Path, None], paths: Sequence[Path]
) -> Iterator[torch.Tensor]:
    """Yield each file's image as bytes, H W C, in host memory of its own."""
    for picture_NHWC, _ in reader.read(split_paths(paths)):
        yield from (picture_HWC.to("cpu", copy=True) for picture_HWC in picture_NHWC)


def split_paths(paths: Sequence[Path]) -> list[list[Path]]:
    """Split paths into those that are read together."""
    starts = range(0, len(paths), PICTURES_PER_READ)
    return [list(paths[start : start + PICTURES_PER_READ]) for start in starts]
