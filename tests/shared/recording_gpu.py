"""A recording double of a GPU, for work that is recorded as CUDA graphs."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any


class RecordingGpu:
    """A device whose memory is the processor's, whose streams are numbers, and whose records are
    the work itself; it refuses to record after `most` records.
    """

    name, capability = "NVIDIA H200", "9.0"

    def __init__(
        self,
        calls: list[tuple[Any, ...]] | None = None,
        most: int | None = None,
        error: Exception | None = None,
    ) -> None:
        self.calls = [] if calls is None else calls
        """Names and arguments, in order."""
        self.streams, self.most = 0, most
        self.error = error or RuntimeError("operation not permitted")

    @property
    def recordings(self) -> int:
        """Count the records."""
        return sum(call[0] == "record" for call in self.calls)

    def create_stream(self) -> int:
        self.streams += 1
        return self.streams

    def get_stream_handle(self, stream: int) -> int:
        return 100 + stream

    def enter_stream(self, stream: int) -> Any:
        return nullcontext()

    def place_tensor(self, tensor: Any) -> Any:
        return tensor.contiguous()

    def allocate_tensor(self, shape: Sequence[int], dtype: str) -> Any:
        import torch

        return torch.empty(tuple(shape), dtype=getattr(torch, dtype))

    def create_memory_pool(self) -> int:
        self.calls.append(("create_memory_pool",))
        return 7

    def record_graph(
        self, stream: int, work: Callable[[], None], pool: int | None = None
    ) -> Callable[[], None]:
        if self.recordings == self.most:
            raise self.error
        self.calls.append(("record", stream))
        work()
        return work
