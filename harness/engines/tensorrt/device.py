"""GPU access of the TensorRT engine: streams, memory and CUDA graphs, all through PyTorch, so that
tensors stay with the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from suite.engine import Shape


class GpuDevice(Protocol):
    """GPU operations of a call; tests substitute their own."""

    name: str
    capability: str

    def create_stream(self) -> Any:
        """Create a stream."""

    def get_stream_handle(self, stream: Any) -> int:
        """Return a stream's handle for TensorRT."""

    def enter_stream(self, stream: Any) -> Any:
        """Enter a stream: it waits for the caller's work, and the caller for the stream's."""

    def place_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Move a tensor to the device, contiguous."""

    def allocate_tensor(self, shape: Shape, dtype: str) -> torch.Tensor:
        """Allocate a tensor."""

    def record_graph(self, stream: Any, work: Callable[[], None]) -> Callable[[], None]:
        """Record work that has already run once; return a call that replays it."""


class CudaDevice:
    """An NVIDIA GPU."""

    def __init__(self, device: str) -> None:
        import torch

        self.device = torch.device(device)
        torch.cuda.set_device(
            self.device
        )  # TensorRT builds and loads on the thread's current device
        self.name = torch.cuda.get_device_name(self.device)
        self.capability = ".".join(map(str, torch.cuda.get_device_capability(self.device)))

    def create_stream(self) -> torch.cuda.Stream:
        """Create a stream."""
        import torch

        return torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    def get_stream_handle(self, stream: torch.cuda.Stream) -> int:
        """Return the CUDA stream."""
        return int(stream.cuda_stream)

    @contextmanager
    def enter_stream(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Enter a stream; both sides wait through events, without blocking the CPU."""
        import torch

        caller = torch.cuda.current_stream(self.device)
        stream.wait_stream(caller)
        with torch.cuda.stream(stream):
            yield
        caller.wait_stream(stream)

    def place_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Move a tensor to the GPU."""
        return tensor.to(self.device, non_blocking=True).contiguous()

    def allocate_tensor(self, shape: Shape, dtype: str) -> torch.Tensor:
        """Allocate a tensor on the GPU."""
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)

    def record_graph(
        self, stream: torch.cuda.Stream, work: Callable[[], None]
    ) -> Callable[[], None]:
        """Record a CUDA graph; other threads continue meanwhile."""
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            work()
        replay: Callable[[], None] = graph.replay
        return replay
