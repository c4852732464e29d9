"""Samples in memory: the contents of LoadGen's sample library for image workloads.

It is the host's memory: the way to the device is part of what is timed (inference_rules.adoc, Load Generator: samples start in host DRAM,
unless a system takes its input from a device straight).
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import torch

T = TypeVar("T")


class Held(Generic[T]):
    """Prepared samples by number, loaded outside the clock."""

    def __init__(self, prepare: Callable[[Sequence[int]], Iterable[T]]) -> None:
        self._prepare = prepare
        self._samples: dict[int, T] = {}

    def __getitem__(self, sample: int) -> T:
        return self._samples[sample]

    def load(self, samples: Sequence[int]) -> None:
        """Prepare samples."""
        self._samples |= zip(samples, self._prepare(samples), strict=True)

    def unload(self, samples: Sequence[int]) -> None:
        """Forget samples."""
        for sample in samples:
            self._samples.pop(sample, None)

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()


def on_host(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """Bring a sample to the host's memory; for a GPU to where its copy engine reads it by itself."""
    host = tensor.cpu()
    return host.pin_memory() if device.startswith("cuda") else host


def on_device(samples: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    """Copy samples to the device, one behind the other without waiting, and put them side by side there."""
    return torch.stack([sample.to(device, non_blocking=True) for sample in samples])


def in_threads(prepare: Callable[[int], T], threads: int) -> Callable[[Sequence[int]], Iterable[T]]:
    """Prepare several samples at once, each by itself."""

    def prepared(samples: Sequence[int]) -> Iterable[T]:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(prepare, samples)

    return prepared
