"""The default pipeline: Pillow, in worker processes, so that the thread that is timed only takes what is ready."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset

from suite.input import Album, Box, Change, Means, Place, Reader, View
from workloads.common.batches import Loader
from workloads.common.pictures import decode
from workloads.common.vision_ops import torchvision

# Legend: N pictures of a batch, H height, W width, C 3 colour channels.
K = TypeVar("K")
N = TypeVar("N")
C = TypeVar("C")
Bytes: TypeAlias = npt.NDArray[np.uint8]

_FUNCTIONAL: Final = torchvision.transforms.functional
ADJUST: Final = {
    Change.BRIGHTNESS: _FUNCTIONAL.adjust_brightness,
    Change.CONTRAST: _FUNCTIONAL.adjust_contrast,
    Change.SATURATION: _FUNCTIONAL.adjust_saturation,
    Change.HUE: _FUNCTIONAL.adjust_hue,
}


def shown(picture: Image.Image, view: View) -> Image.Image:
    """Make a picture look as wanted."""
    if view.cut:
        picture = picture.crop(pixels(view.box)).resize(view.extent, Image.Resampling.BILINEAR)
    else:
        picture = picture.resize(view.extent, Image.Resampling.BILINEAR, box=view.box)
    if view.window:
        picture = picture.crop(pixels(view.window))
    if view.mirrored:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for change, factor in view.changes:
        picture = ADJUST[change](picture, factor)
    return picture


def pixels(box: Box) -> tuple[int, int, int, int]:
    """Give a box of whole pixels as integers."""
    left, top, right, bottom = map(int, box)
    return left, top, right, bottom


class Shown(Dataset[tuple[Bytes, N]], Generic[K, N]):
    """Pictures by key, with what goes with them."""

    def __init__(self, album: Album[K, N, Any], threads: int) -> None:
        self.album, self.threads = album, threads

    def __getitem__(self, key: K) -> tuple[Bytes, N]:
        picture = decode(self.album.path(key))
        view, note = self.album.view(key, picture.size)
        return np.asarray(shown(picture, view)), note

    def __getitems__(self, keys: list[K]) -> list[tuple[Bytes, N]]:
        """Show a batch; Pillow works outside the interpreter's lock. DataLoader calls this."""
        if self.threads == 1:
            return [self[key] for key in keys]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(self.__getitem__, keys))


class Collated(Generic[N, C]):
    """Puts samples side by side."""

    def __init__(self, album: Album[Any, N, C]) -> None:
        self.album = album

    def __call__(self, samples: Sequence[tuple[Bytes, N]]) -> tuple[torch.Tensor, C]:
        """Make one batch."""
        pictures, notes = zip(*samples, strict=True)
        return torch.from_numpy(np.stack(pictures)), self.album.together(notes)


class DefaultReader(Generic[K, N, C]):
    """One DataLoader over one album."""

    def __init__(self, album: Album[K, N, C], means: Means) -> None:
        samples: Shown[K, N] = Shown(album, 1 if means.workers else means.threads)
        self.loader: Loader[tuple[Bytes, N], tuple[torch.Tensor, C]]
        self.loader = Loader(samples, Collated(album), means.workers, pinned=means.device.startswith("cuda"))

    def read(self, batches: Sequence[list[K]]) -> Iterator[tuple[torch.Tensor, C]]:
        """Yield the batches; those before them were never decoded."""
        return self.loader.read(batches)


class DefaultInput:
    """What every machine has."""

    name: ClassVar[str] = "default"
    places: ClassVar[tuple[Place, ...]] = (Place.CPU,)

    def missing(self, device: str, place: Place) -> str | None:
        """Only refuse what it cannot do."""
        return None if place in self.places else f"it works on the CPU alone: --set input.device={Place.CPU}, or another --input"

    def open(self, album: Album[K, N, C], means: Means) -> Reader[K, C]:
        """Make the DataLoader; its workers start at the first reading."""
        return DefaultReader(album, means)
