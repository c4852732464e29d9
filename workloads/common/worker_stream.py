"""The CUDA stream of one worker: on the default stream, which all threads share, the copies,
networks and answers of several workers would run one after another.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from workloads.common.pictures.in_memory import allocate_host_memory


class WorkerStream:
    """A stream of one worker's own; on a CPU there is none, and nothing waits."""

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._device, self._cuda = device, cuda
        self._stream = cuda.Stream(device) if device.type == "cuda" else None

    @contextmanager
    def enter_inference(self) -> Iterator[None]:
        """Enter inference mode and the stream, whose work begins behind what the caller's stream
        has to do.
        """
        with torch.inference_mode():
            if self._stream is None:
                yield
                return
            self._stream.wait_stream(self._cuda.current_stream(self._device))
            with self._cuda.stream(self._stream):
                yield

    def stage_on_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the host in memory from which the stream copies without the host; the
        tensor itself where there is no stream.
        """
        if self._stream is None:
            return tensor
        return allocate_host_memory(tensor.shape, tensor.dtype, self._device).copy_(tensor)

    def copy_to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy a result of the stream to the host, and wait for this copy alone."""
        (host,) = self.copy_all_to_host([tensor])
        return host

    def copy_all_to_host(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Copy several results, and wait once."""
        if self._stream is None:
            return [tensor.cpu() for tensor in tensors]
        copies = [
            allocate_host_memory(tensor.shape, tensor.dtype, self._device).copy_(
                tensor, non_blocking=True
            )
            for tensor in tensors
        ]
        copied = self._cuda.Event()
        copied.record(self._stream)
        copied.synchronize()
        return copies
