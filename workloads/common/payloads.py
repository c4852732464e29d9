"""Tensors as bytes, in the order of their values and little-endian: how samples travel over a
network.
"""

import struct
from typing import Final

import torch

NUMBER: Final = struct.Struct("<q")
"""A sample's number in front of a tensor, for workloads whose answers contain it."""


def raw(tensor: torch.Tensor) -> bytes:
    """Return the values of a tensor in host memory."""
    return tensor.contiguous().numpy().tobytes()


def parsed(payload: bytes | memoryview, like: torch.Tensor) -> torch.Tensor:
    """Invert `raw` for a tensor of the same type and shape as another; ValueError if the bytes are
    of another length.
    """
    if len(payload) != like.numel() * like.element_size():
        raise ValueError(
            f"{len(payload):,} bytes are no tensor of {'x'.join(map(str, like.shape))} {like.dtype}"
        )
    return torch.frombuffer(bytearray(payload), dtype=like.dtype).view(
        like.shape
    )  # a copy: torch shares memory only where it may write


def numbered(sample: int, tensor: torch.Tensor) -> bytes:
    """Return a sample's number and its tensor."""
    return NUMBER.pack(sample) + raw(tensor)


def number_of(payload: bytes) -> tuple[int, memoryview]:
    """Split a payload into the sample's number and the bytes of its tensor; ValueError if it is too
    short.
    """
    if len(payload) < NUMBER.size:
        raise ValueError(f"{len(payload)} bytes are too few for a sample's number")
    (sample,) = NUMBER.unpack_from(payload)
    return sample, memoryview(payload)[NUMBER.size :]
