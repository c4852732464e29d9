"""One worker's calls of a torch module through CUDA graphs, one for each batch size. They are
recorded before any clock; a smaller batch is padded, and what was not recorded runs eager.

A graph launches in one call what the host would launch kernel by kernel. It reads and writes the
addresses that it was recorded with (PyTorch, CUDA semantics, CUDA graphs), so inputs are copied
into buffers that all sizes share.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

    from harness.engines.gpu_device import GpuDevice
    from suite.engine import Network

    Tensors = tuple[torch.Tensor, ...]

BATCH_DIMENSION: Final = "batch"
"""The name of the dimension along which the rows of a network do not depend on each other."""


class UnrecordableError(Exception):
    """A network whose work a graph cannot stand for, and why."""


def list_recorded_sizes(network: Network[torch.Tensor], max_batch: int) -> tuple[int, ...]:
    """Return the batch sizes to record: the powers of two up to the largest batch, and the largest
    itself; for a network of fixed shapes its own size alone; none for one whose other dimensions
    vary or that keeps a state.
    """
    if network.state:
        return ()
    if not any(network.dimensions):
        return (network.inputs[0].shape[0],)
    if any(each != {0: BATCH_DIMENSION} for each in network.dimensions):
        return ()
    powers = (1 << exponent for exponent in range(max_batch.bit_length()))
    return tuple(sorted({*powers, max_batch}))


@dataclass(frozen=True, slots=True)
class RecordedSize:
    """The recorded work of one batch size."""

    outputs: list[Tensors]
    """The one set of outputs that the recorded work writes."""
    replay: Callable[[], None]


class RecordedBatches:
    """Callable with a network's inputs; its results are valid until the next call."""

    def __init__(
        self,
        run: Callable[..., Tensors],
        device: GpuDevice,
        buffers: Tensors,
        sizes: tuple[int, ...],
    ) -> None:
        """Record `run` for each size, the largest first, whose memory the others share; `buffers`
        are inputs of the largest size on the device.
        """
        self.run, self.device, self.buffers, self.sizes = run, device, buffers, sizes
        self.stream, self.pool = device.create_stream(), device.create_memory_pool()
        self.recorded = {size: self.record_size(size) for size in reversed(sizes)}

    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        """Run the network."""
        count = inputs[0].shape[0]
        place = bisect_left(self.sizes, count)
        if place == len(self.sizes) or not self.has_recorded_shapes(inputs):
            return self.run(*inputs)
        for buffer, tensor in zip(self.buffers, inputs, strict=True):
            buffer[:count].copy_(tensor, non_blocking=True)
        found = self.recorded[self.sizes[place]]
        found.replay()
        return tuple(output[:count] for output in found.outputs[0])

    def has_recorded_shapes(self, inputs: Tensors) -> bool:
        """Return whether rows of these inputs have the shapes and types of the recorded ones."""
        return all(
            tensor.shape[1:] == buffer.shape[1:] and tensor.dtype == buffer.dtype
            for tensor, buffer in zip(inputs, self.buffers, strict=True)
        )

    def record_size(self, size: int) -> RecordedSize:
        """Run once, since a first run does work that cannot be recorded; then record."""
        inputs = tuple(buffer[:size] for buffer in self.buffers)
        outputs: list[Tensors] = []

        def run_once() -> None:
            outputs[:] = [self.run(*inputs)]

        with self.device.enter_stream(self.stream):
            run_once()
        if any(output.shape[:1] != (size,) for output in outputs[0]):
            raise UnrecordableError("an output does not begin with the batch")
        replay = self.device.record_graph(self.stream, run_once, self.pool)
        return RecordedSize(outputs=outputs, replay=replay)
