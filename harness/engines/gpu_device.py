"""GPU access of the engines: streams, memory and CUDA graphs, all through PyTorch, so that tensors
stay with the caller's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import torch

    from suite.engine import Shape

CUDA_GRAPHS_OPTION: Final = "engine.cuda_graphs"
"""The setting's name in a plan's options."""
RECORDING_TURN: Final = threading.Lock()
"""Held by the thread that records: PyTorch waits for the whole device before each recording, and
may not while another thread records.
"""


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

    def create_memory_pool(self) -> Any:
        """Create a pool for the memory of graphs that never replay at the same time."""

    def record_graph(
        self, stream: Any, work: Callable[[], None], pool: Any = None
    ) -> Callable[[], None]:
        """Record work that has already run once; return a call that replays it on the caller's
        stream.
        """


class CudaDevice:
    """An NVIDIA GPU."""

    def __init__(self, device: str) -> None:
        import torch

        self.device = torch.device(device)
        # TensorRT builds and loads on the thread's current device
        torch.cuda.set_device(self.device)
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

    def create_memory_pool(self) -> Any:
        """Create a memory pool."""
        import torch

        return torch.cuda.graph_pool_handle()

    def record_graph(
        self, stream: torch.cuda.Stream, work: Callable[[], None], pool: Any = None
    ) -> Callable[[], None]:
        """Record a CUDA graph; other threads continue meanwhile."""
        import torch

        graph, caller = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.device)
        try:
            with (
                RECORDING_TURN,
                torch.cuda.device(self.device),
                torch.cuda.graph(
                    graph, pool=pool, stream=stream, capture_error_mode="thread_local"
                ),
            ):
                work()
        finally:
            torch.cuda.set_stream(caller)  # a recording that fails leaves its own stream current
        replay: Callable[[], None] = graph.replay
        return replay
