"""A worker's stream against a recording double of torch.cuda."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from workloads.common.worker_stream import WorkerStream


class RecordingCuda:
    """Streams and events that note what is asked of them, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.streams = 0

    def Stream(self, device: torch.device) -> "RecordingStream":
        self.streams += 1
        return RecordingStream(self, f"stream {self.streams}")

    def current_stream(self, device: torch.device) -> str:
        return f"current of {device}"

    @contextmanager
    def stream(self, stream: "RecordingStream") -> Iterator[None]:
        self.calls.append(("enter", stream.name))
        yield
        self.calls.append(("leave", stream.name))

    def Event(self) -> "RecordingEvent":
        return RecordingEvent(self)


class RecordingStream:
    """A stream."""

    def __init__(self, cuda: RecordingCuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def wait_stream(self, other: str) -> None:
        self.cuda.calls.append(("wait", self.name, other))


class RecordingEvent:
    """An event."""

    def __init__(self, cuda: RecordingCuda) -> None:
        self.cuda = cuda

    def record(self, stream: RecordingStream) -> None:
        self.cuda.calls.append(("record", stream.name))

    def synchronize(self) -> None:
        self.cuda.calls.append(("synchronize",))


def test_work_runs_on_the_worker_s_stream_behind_what_came_before() -> None:
    """Weights and recordings are made on the caller's stream; without a wait a worker could read
    them before they are there.
    """
    cuda = RecordingCuda()
    device = torch.device("cuda:1")
    first, second = WorkerStream(device, cuda), WorkerStream(device, cuda)
    for worker in (first, second):
        with worker.enter_inference():
            assert torch.is_inference_mode_enabled()
            cuda.calls.append(("work",))
    assert not torch.is_inference_mode_enabled()
    assert cuda.calls == [
        step
        for name in ("stream 1", "stream 2")
        for step in (
            ("wait", name, "current of cuda:1"),
            ("enter", name),
            ("work",),
            ("leave", name),
        )
    ]


def test_an_answer_is_read_when_its_copy_is_done_and_waits_for_nothing_else() -> None:
    """Read before the event, pinned memory still has the answers of another batch."""
    cuda = RecordingCuda()
    worker = WorkerStream(torch.device("cuda:0"), cuda)
    answer_NA = torch.arange(6).view(2, 3)
    found = worker.copy_to_host(answer_NA)
    assert torch.equal(found, answer_NA) and found.data_ptr() != answer_NA.data_ptr()
    assert cuda.calls == [("record", "stream 1"), ("synchronize",)]


def test_a_cpu_has_no_stream() -> None:
    cuda = RecordingCuda()
    worker = WorkerStream(torch.device("cpu"), cuda)
    with worker.enter_inference():
        assert torch.is_inference_mode_enabled()
    answer_N = torch.arange(3)
    assert worker.copy_to_host(answer_N) is answer_N and not cuda.calls and not cuda.streams
