"""One worker's calls of a torch module through CUDA graphs, one for each batch size. They are
recorded before any clock; a smaller batch is padded, and what was not recorded runs eager.

Inputs are copied into buffers that all sizes share.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from harness.engines.recorded_work import RecordedWork, UnrecordableError, WorkRecorder
from suite.engine import list_recorded_batch_sizes

if TYPE_CHECKING:
    import torch

    from suite.engine import Network

    Tensors = tuple[torch.Tensor, ...]

BATCH_DIMENSION: Final = "batch"
"""The name of the dimension along which the rows of a network do not depend on each other."""


def list_recorded_sizes(network: Network[torch.Tensor], max_batch: int) -> tuple[int, ...]:
    """Return the batch sizes to record: for a network of fixed shapes its own size alone; none for
    one whose other dimensions vary or that keeps a state.
    """
    if network.state:
        return ()
    if not any(network.dimensions):
        return (network.inputs[0].shape[0],)
    if any(each != {0: BATCH_DIMENSION} for each in network.dimensions):
        return ()
    return list_recorded_batch_sizes(max_batch)


class RecordedBatches:
    """Callable with a network's inputs; its results are valid until the next call."""

    def __init__(
        self,
        run: Callable[..., Tensors],
        recorder: WorkRecorder,
        buffers: Tensors,
        sizes: tuple[int, ...],
    ) -> None:
        """Record each size, the largest first, whose memory the others share; `buffers` are inputs
        of the largest size on the device.
        """
        self._run, self._buffers, self._sizes = run, buffers, sizes
        self._recorded = {size: self.record_size(recorder, size) for size in reversed(sizes)}

    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        """Run the network."""
        count = inputs[0].shape[0]
        place = bisect_left(self._sizes, count)
        if place == len(self._sizes) or not self.has_recorded_shapes(inputs):
            return self._run(*inputs)
        for buffer, tensor in zip(self._buffers, inputs, strict=True):
            buffer[:count].copy_(tensor, non_blocking=True)
        outputs = self._recorded[self._sizes[place]]()
        return tuple(output[:count] for output in outputs)

    def has_recorded_shapes(self, inputs: Tensors) -> bool:
        """Return whether rows of these inputs have the shapes and types of the recorded ones."""
        return all(
            tensor.shape[1:] == buffer.shape[1:] and tensor.dtype == buffer.dtype
            for tensor, buffer in zip(inputs, self._buffers, strict=True)
        )

    def record_size(self, recorder: WorkRecorder, size: int) -> RecordedWork:
        """Record one size; UnrecordableError if an output cannot be cut to a smaller batch."""
        recorded = recorder.record_work(*(buffer[:size] for buffer in self._buffers))
        if any(output.shape[:1] != (size,) for output in recorded.outputs):
            raise UnrecordableError("an output does not begin with the batch")
        return recorded
