"""The default input pipeline: Pillow decodes and torch resizes in worker processes; the timed
thread only takes finished samples.

torch resizes bytes with Pillow's own method (fixed-point weights, rounded between the two passes),
vectorised where Pillow is not.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.nn.functional import interpolate
from torch.utils.data import Dataset, default_collate

from suite.input import Album, Extent, Means, Place, Reader, View
from workloads.common.inputs.batches import BatchLoader
from workloads.common.pictures.decoding import read_rgb_picture

# Legend: N images of a batch, H height, W width, C 3 colour channels.
K = TypeVar("K")
N = TypeVar("N")
C = TypeVar("C")
Bytes: TypeAlias = npt.NDArray[np.uint8]


def draw_picture_view(picture: Image.Image, view: View) -> torch.Tensor:
    """Render an image's view; H W C, bytes."""
    picture_1CHW = resize_picture(np.array(picture.crop(view.box)), view.extent)
    if view.window:
        left, top, right, bottom = view.window
        picture_1CHW = picture_1CHW[:, :, top:bottom, left:right]
    if view.mirrored:
        picture_1CHW = picture_1CHW.flip(3)
    return picture_1CHW[0].permute(1, 2, 0)


def resize_picture(picture_HWC: Bytes, extent: Extent) -> torch.Tensor:
    """Resize with a triangle filter as wide as the larger pixel, 1 C H W; differs from Pillow's by
    at most one step of 255.
    """
    picture_1CHW = torch.from_numpy(picture_HWC).permute(2, 0, 1)[None]
    return interpolate(picture_1CHW, size=extent[::-1], mode="bilinear", antialias=True)


class ViewedPictures(Dataset[tuple[torch.Tensor, N]], Generic[K, N]):
    """Rendered images by key, with their targets."""

    def __init__(self, album: Album[K, N, Any], threads: int) -> None:
        self.album, self.threads = album, threads

    def __getitem__(self, key: K) -> tuple[torch.Tensor, N]:
        picture = read_rgb_picture(self.album.path(key))
        view, note = self.album.view(key, picture.size)
        return draw_picture_view(picture, view), note

    def __getitems__(self, keys: Sequence[K]) -> list[tuple[torch.Tensor, N]]:
        """Render a batch; DataLoader calls this. Pillow releases the GIL."""
        if self.threads == 1:
            return [self[key] for key in keys]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(self.__getitem__, keys))


class PictureCollator(Generic[N, C]):
    """Collates samples."""

    def __init__(self, album: Album[Any, N, C]) -> None:
        self.album = album

    def __call__(self, samples: Sequence[tuple[torch.Tensor, N]]) -> tuple[torch.Tensor, C]:
        """Collate one batch; in a worker, directly into shared memory."""
        pictures, notes = zip(*samples, strict=True)
        return default_collate(list(pictures)), self.album.together(notes)


class DefaultReader(Generic[K, N, C]):
    """One DataLoader over one album."""

    def __init__(self, album: Album[K, N, C], means: Means) -> None:
        samples: ViewedPictures[K, N] = ViewedPictures(album, 1 if means.workers else means.threads)
        self.loader: BatchLoader[tuple[torch.Tensor, N], tuple[torch.Tensor, C]]
        self.loader = BatchLoader(
            samples, PictureCollator(album), means.workers, pinned=means.device.startswith("cuda")
        )

    def read(self, batches: Sequence[Sequence[K]]) -> Iterator[tuple[torch.Tensor, C]]:
        """Yield the batches; earlier ones are never decoded."""
        return self.loader.read(batches)


class DefaultInput:
    """The pipeline that runs on every machine."""

    name: ClassVar[str] = "default"
    places: ClassVar[tuple[Place, ...]] = (Place.CPU,)

    def missing(self, device: str, place: Place) -> str | None:
        """Return what is missing: it can run only on the CPU."""
        if place in self.places:
            return None
        return f"it runs only on the CPU: --set input.device={Place.CPU}, or another --input"

    def open(self, album: Album[K, N, C], means: Means) -> Reader[K, C]:
        """Create the DataLoader; its workers start at the first read."""
        return DefaultReader(album, means)
