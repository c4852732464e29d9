"""Samples in memory: the contents of LoadGen's sample library for image workloads.

They are in host memory, since the copy to the device is part of the timed run
(inference_rules.adoc, Load Generator: samples start in host
DRAM, unless a system takes its input directly from a device).
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

import torch

T = TypeVar("T")


class LoadedSamples(Generic[T]):
    """Prepared samples by index, loaded outside the clock."""

    def __init__(self, prepare: Callable[[Sequence[int]], Iterable[T]]) -> None:
        self._prepare = prepare
        self._samples: dict[int, T] = {}

    def __getitem__(self, sample: int) -> T:
        return self._samples[sample]

    def load(self, samples: Sequence[int]) -> None:
        """Prepare samples."""
        self._samples |= zip(samples, self._prepare(samples), strict=True)

    def unload(self, samples: Sequence[int]) -> None:
        """Release samples."""
        for sample in samples:
            self._samples.pop(sample, None)

    def release_samples(self) -> None:
        """Release all samples."""
        self._samples.clear()


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


def wrap_in_threads(
    prepare: Callable[[int], T], threads: int
) -> Callable[[Sequence[int]], Iterable[T]]:
    """Prepare several samples in parallel, each on its own."""

    def prepare_samples(samples: Sequence[int]) -> Iterable[T]:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(prepare, samples)

    return prepare_samples
