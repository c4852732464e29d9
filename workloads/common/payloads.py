"""Encodes tensors as bytes, little-endian, to send samples over a network."""

import struct
from typing import Final

import torch

SAMPLE_NUMBER_FORMAT: Final = struct.Struct("<q")
"""A sample's number, placed before a tensor, for workloads whose answers contain it."""


def encode_tensor(tensor: torch.Tensor) -> bytes:
    """Return the values of a tensor in host memory as bytes."""
    return tensor.contiguous().numpy().tobytes()


def decode_tensor(payload: bytes | memoryview, template: torch.Tensor) -> torch.Tensor:
    """Invert `encode_tensor` for a tensor of the same type and shape as another; ValueError if the
    number of bytes differs.
    """
    if len(payload) != template.numel() * template.element_size():
        raise ValueError(
            f"{len(payload):,} bytes are not a tensor of {'x'.join(map(str, template.shape))}"
            f" {template.dtype}"
        )
    # a copy: torch shares memory only where it may write
    return torch.frombuffer(bytearray(payload), dtype=template.dtype).view(template.shape)


def prefix_sample_number(sample: int, content: bytes) -> bytes:
    """Return a sample's number and the bytes of its tensor."""
    return SAMPLE_NUMBER_FORMAT.pack(sample) + content


def split_numbered_payload(payload: bytes) -> tuple[int, memoryview]:
    """Split a payload into the sample's number and the bytes of its tensor; ValueError if it is too
    short.
    """
    if len(payload) < SAMPLE_NUMBER_FORMAT.size:
        raise ValueError(f"{len(payload)} bytes are too few for a sample's number")
    (sample,) = SAMPLE_NUMBER_FORMAT.unpack_from(payload)
    return sample, memoryview(payload)[SAMPLE_NUMBER_FORMAT.size :]
