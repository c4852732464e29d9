"""What counts as waiting for data where a GPU computes: the time in which it has nothing to do."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch

from suite.measurement.data_waiting import DATA_WAITING, HostWaitTimer, MeasuredBatches
from workloads.common.inputs.device_waiting import CudaWaitTimer, open_wait_timer

GPU = torch.device("cuda", 0)


class QueuedWork:
    """A double of a GPU's clock and queue, in s: the host goes on while the GPU computes."""

    now_s: ClassVar[float]
    busy_until_s: ClassVar[float]

    @classmethod
    def queue_step(cls, seconds: float) -> None:
        cls.busy_until_s = max(cls.busy_until_s, cls.now_s) + seconds


class QueuedEvent:
    """A mark in that queue."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: object) -> None:
        assert stream == "computing"
        self.passed_s = max(QueuedWork.now_s, QueuedWork.busy_until_s)

    def query(self) -> bool:
        return QueuedWork.now_s >= self.passed_s

    def elapsed_time(self, later: "QueuedEvent") -> float:
        assert self.query() and later.query(), "a GPU says nothing about marks still ahead of it"
        return 1000 * (later.passed_s - self.passed_s)


def read_batches(count: int, seconds: float) -> Iterator[int]:
    for number in range(count):
        QueuedWork.now_s += seconds
        yield number


@pytest.mark.parametrize(
    ("reading_s", "step_s", "waited_s"),
    [(0.009, 0.010, 0.0), (0.011, 0.010, 0.1), (0.030, 0.010, 2.0), (0.0, 0.010, 0.0)],
)
def test_a_gpu_waits_while_it_has_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, reading_s: float, step_s: float, waited_s: float
) -> None:
    """The host waits nine tenths of the time for a loader that is just faster than the GPU, or just
    slower: the first GPU never waits, the second a tenth.
    """
    QueuedWork.now_s = QueuedWork.busy_until_s = 0.0
    monkeypatch.setattr(torch.cuda, "Event", QueuedEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "computing")
    timer: Any = open_wait_timer(GPU)
    assert isinstance(timer, CudaWaitTimer)
    before_s = DATA_WAITING.waited_s
    for _ in MeasuredBatches(read_batches(101, reading_s), timer):
        QueuedWork.queue_step(step_s)
    QueuedWork.now_s = QueuedWork.busy_until_s  # as when the loss of an epoch is read
    list(MeasuredBatches(iter(()), timer))
    found_s = DATA_WAITING.waited_s - before_s - reading_s  # nothing was queued before the first
    assert found_s == pytest.approx(waited_s, abs=1e-9)


def test_a_cpu_waits_as_long_as_the_host() -> None:
    assert isinstance(open_wait_timer(torch.device("cpu")), HostWaitTimer)
