"""Records work on a GPU as a CUDA graph, which one call of the host replays."""

from collections.abc import Callable
from typing import Final, Protocol

import torch

from suite.errors import MissingError
from suite.workload import Run

WARM_UP_RUNS: Final = 3
"""pytorch.org, CUDA semantics, CUDA graphs: runs before the capture, in which libraries choose
kernels and reserve memory.
"""


class GraphRecorder(Protocol):
    """Records work; tests substitute their own."""

    def record_work(self, work: Callable[[], None]) -> Callable[[], None]:
        """Run work to warm it up, and record it, which does not run it; return what replays it. It
        must read and write the same memory each time, and never look at a value.
        """


class CudaGraphRecorder:
    """Records on an NVIDIA GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def record_work(self, work: Callable[[], None]) -> Callable[[], None]:
        """Warm up and record on a stream of its own; other threads go on meanwhile."""
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP_RUNS):
                    work()
        finally:  # what follows changes the same memory
            torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            work()
        replay: Callable[[], None] = graph.replay
        return replay


def open_graph_recorder(run: Run) -> GraphRecorder:
    """Return what records the steps of a run; MissingError says why nothing can."""
    device = torch.device(run.device)
    if device.type != "cuda":
        raise MissingError(f"only NVIDIA GPUs replay graphs, and the device is {run.device}")
    if run.world_size > 1:
        raise MissingError(
            f"the graph of one rank alone can be recorded, and there are {run.world_size}"
        )
    return CudaGraphRecorder(device)
