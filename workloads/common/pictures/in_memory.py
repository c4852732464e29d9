"""Host memory of served samples, and their way to the device."""

from collections.abc import Sequence
from contextlib import suppress

import torch


def allocate_host_memory(
    shape: Sequence[int], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Allocate host memory for copies to and from a device: pinned for a GPU, whose copy engine
    then needs no help of the host, unless the system has no more to pin.
    """
    if device.type == "cuda":
        with suppress(RuntimeError):
            return torch.empty(shape, dtype=dtype, pin_memory=True)
    return torch.empty(shape, dtype=dtype)


def copy_sample_to_host(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """Copy a sample to host memory; with a GPU, to pinned memory for its copy engine."""
    host = tensor.cpu()
    return host.pin_memory() if device.startswith("cuda") else host


def stack_samples_on_device(samples: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    """Copy samples to the device one after another without waiting, and stack them there."""
    return torch.stack([sample.to(device, non_blocking=True) for sample in samples])
