"""Pictures of one size on their way to a network: how they lie in host memory, and how a worker
copies a batch to the device.

For the torch engine on a GPU they lie there as bytes, a quarter of the normalised floats: a worker
gathers a batch in memory of its own, copies it at once, and normalises it on the device. The
numbers are the same to the last bit. Elsewhere they are normalised when they are loaded.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from suite.engine import Engine
from suite.input import Reader
from workloads.common.payloads import decode_tensor, encode_tensor
from workloads.common.pictures.decoding import normalise_pictures
from workloads.common.pictures.files import iterate_byte_pictures, iterate_normalised_pictures
from workloads.common.pictures.in_memory import (
    allocate_host_memory,
    copy_sample_to_host,
    stack_samples_on_device,
)

# Legend: N images of a batch, C 3 colour channels, H height, W width.
COLOUR_CHANNELS: Final = 3


def can_serve_bytes(engine: Engine[Any], device: str) -> bool:
    """Return whether an engine on a device is given pictures that were normalised there."""
    return engine.name == "torch" and device.startswith("cuda")


class ServedPictures:
    """Pictures of `side` pixels in host memory: H W C bytes, or normalised C H W."""

    def __init__(self, device: str, side: int, *, as_bytes: bool) -> None:
        self._device, self._as_bytes = device, as_bytes
        self.normalised_CHW = torch.zeros(COLOUR_CHANNELS, side, side)
        """A blank picture as the network takes it."""
        self.blank = self.normalised_CHW
        """A blank picture as it lies in host memory."""
        if as_bytes:
            self.blank = torch.zeros(side, side, COLOUR_CHANNELS, dtype=torch.uint8)

    def read_pictures(
        self, reader: Reader[Path, None], paths: Sequence[Path]
    ) -> Iterator[torch.Tensor]:
        """Read files into host memory."""
        if self._as_bytes:
            return iterate_byte_pictures(reader, paths)
        return (
            copy_sample_to_host(picture_1CHW[0], self._device)
            for picture_1CHW in iterate_normalised_pictures(reader, paths)
        )

    def encode_picture(self, picture: torch.Tensor) -> bytes:
        """Return a picture as it travels over a network: its normalised values, C H W."""
        if self._as_bytes:
            (picture,) = normalise_pictures(picture[None])
        return encode_tensor(picture)

    def decode_picture(self, payload: bytes | memoryview) -> torch.Tensor:
        """Return the normalised picture that came over a network, C H W; ValueError if the bytes
        are none of this size.
        """
        return decode_tensor(payload, self.normalised_CHW)


class PictureBatcher:
    """Copies one worker's batches to the device. The answers to a batch must be there before the
    next one is copied.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._slab_NHWC = torch.empty(0, dtype=torch.uint8)

    def copy_to_device(self, pictures: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a batch of normalised pictures, N C H W, on the device."""
        if pictures[0].dtype != torch.uint8:
            return stack_samples_on_device(pictures, self._device)
        gathered_NHWC = torch.stack(list(pictures), out=self._reserve_slab(pictures))
        return normalise_pictures(gathered_NHWC.to(self._device, non_blocking=True))

    def _reserve_slab(self, pictures: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return host memory for a batch, of the slab that grows to the largest."""
        shape = (len(pictures), *pictures[0].shape)
        if self._slab_NHWC.shape[1:] != shape[1:] or len(self._slab_NHWC) < len(pictures):
            self._slab_NHWC = allocate_host_memory(shape, torch.uint8, self._device)
        return self._slab_NHWC[: len(pictures)]
