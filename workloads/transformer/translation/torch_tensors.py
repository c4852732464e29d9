"""Conversion between arrays and torch tensors for the search, and the translator used during
training.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt
import torch

from workloads.common.worker_stream import WorkerStream
from workloads.transformer.model import (
    TransformerNetwork,
    TransformerServingDecoderStep,
    TransformerServingEncoder,
)
from workloads.transformer.recipe import DecodingParameters
from workloads.transformer.translation.beam_search import Floats, Ints
from workloads.transformer.translation.decoding import TransformerTranslator


class TorchConverter:
    """One worker's copies of arrays to the device and back."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.stream = WorkerStream(self.device)

    def open_worker(self) -> "TorchConverter":
        """Return one with a stream of its own."""
        return TorchConverter(str(self.device))

    def enter_inference_mode(self) -> AbstractContextManager[object]:
        """Enter torch's inference mode and the worker's stream."""
        return self.stream.enter_inference()

    def copy_to_device(self, array: Ints | Floats) -> torch.Tensor:
        """Copy an array to the device."""
        return self.stream.stage_on_host(torch.from_numpy(array)).to(self.device, non_blocking=True)

    def copy_to_host(self, tensors: Sequence[torch.Tensor]) -> list[npt.NDArray[np.generic]]:
        """Copy tensors back to the host."""
        return [tensor.numpy() for tensor in self.stream.copy_all_to_host(tensors)]

    def build_empty_caches(
        self, memory: torch.Tensor, slots: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Create empty key and value caches for a memory of L B H S D; zeros, since unwritten slots
        are multiplied by 0.
        """
        layers, count, heads, _, size = memory.shape
        key, value = (
            torch.zeros(layers, count, heads, slots, size, dtype=memory.dtype, device=memory.device)
            for _ in range(2)
        )
        return key, value

    def update_caches(
        self, caches: tuple[torch.Tensor, torch.Tensor], new: Sequence[torch.Tensor], first: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write in place: only a few slots, however long the caches are."""
        for cache_LBHMD, new_LBHKD in zip(caches, new, strict=True):
            cache_LBHMD[:, :, :, first : first + new_LBHKD.shape[3]] = new_LBHKD
        return caches


def build_torch_translator(
    model: TransformerNetwork, decoding: DecodingParameters, device: str
) -> TransformerTranslator[torch.Tensor]:
    """Build a translator that runs the network itself, without an engine."""
    return TransformerTranslator(
        TorchConverter(device),
        TransformerServingEncoder(model),
        TransformerServingDecoderStep(model),
        decoding,
    )
