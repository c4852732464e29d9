"""Batches on their way to the device: a double of a GPU's streams notes what is asked of them, and
shows that batches keep their order, their values and their memory.
"""

import gc
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from suite.measurement.data_waiting import DATA_WAITING, HostWaitTimer, MeasuredBatches
from workloads.common.inputs.device_copies import (
    CopiedBatches,
    CopyStream,
    CudaCopyStream,
    DirectCopies,
    load_for_device,
    map_batch_tensors,
    open_copy_stream,
)

HOST = torch.device("cpu")


class RecordingStream:
    """A stream that copies at once, and says in which order what was asked."""

    batches_ahead = CudaCopyStream.batches_ahead

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.copying, self.events = False, 0

    @contextmanager
    def enter_copies(self) -> Iterator[None]:
        self.copying = True
        yield
        self.copying = False

    def mark_copies(self) -> int:
        assert self.copying, "an event of another stream says nothing about the copies"
        self.events += 1
        self.asked.append(f"copy {self.events}")
        return self.events

    def await_copies(self, event: int) -> None:
        assert not self.copying
        self.asked.append(f"await {event}")

    def keep_until_computed(self, tensor: torch.Tensor) -> None:
        assert not self.copying
        self.asked.append(f"keep {int(tensor.flatten()[0])}")


@dataclass(frozen=True, kw_only=True)
class Notes:
    """What lies beside the pictures of a batch."""

    label_N: torch.Tensor
    shapes: tuple[torch.Size, ...] = (torch.Size([2, 3]),)
    weight: float = 0.5


Batch = tuple[torch.Tensor, Notes]


def build_batches(count: int) -> Iterator[Batch]:
    """Yield numbered batches, the first of which is 1."""
    for number in range(1, count + 1):
        yield torch.full((2,), number), Notes(label_N=torch.full((3,), number))


def test_the_next_batch_is_copied_before_this_one_computes() -> None:
    """And what computes waits for its own batch alone, whose tensors are all kept until then."""
    stream = RecordingStream()
    for number, (picture_N, notes) in enumerate(CopiedBatches(build_batches(3), HOST, stream), 1):
        assert (picture_N == number).all() and (notes.label_N == number).all()
        assert (notes.shapes, notes.weight) == ((torch.Size([2, 3]),), 0.5)
        stream.asked.append(f"compute {number}")
    keep = [f"await {n} keep {n} keep {n} compute {n}" for n in (1, 2, 3)]
    wanted = f"copy 1 copy 2 {keep[0]} copy 3 {keep[1]} {keep[2]}"
    assert " ".join(stream.asked) == wanted


@pytest.mark.parametrize("stream", [RecordingStream(), DirectCopies()])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_no_batch_is_lost_or_comes_twice(stream: CopyStream, count: int) -> None:
    """Whether some are copied ahead or none; the end stays the end."""
    copied = CopiedBatches(build_batches(count), HOST, stream)
    assert [int(picture_N[0]) for picture_N, _ in copied] == list(range(1, count + 1))
    with pytest.raises(StopIteration):
        next(copied)


def test_a_cpu_gets_the_very_batches_when_it_asks_for_them() -> None:
    """Nothing is read ahead, nothing is copied."""
    given = list(build_batches(3))
    source = iter(given)
    copied = CopiedBatches(source, HOST, open_copy_stream(HOST))
    picture_N, notes = next(copied)
    assert picture_N is given[0][0] and notes.label_N is given[0][1].label_N
    assert next(source) is given[1]


def test_batches_arrive_on_another_device() -> None:
    """Each tensor of them, wherever it is in the batch."""
    ((picture_N, notes),) = CopiedBatches(build_batches(1), torch.device("meta"), RecordingMeta())
    assert picture_N.is_meta and notes.label_N.is_meta


class RecordingMeta(RecordingStream):
    """The same for tensors without values."""

    def keep_until_computed(self, tensor: torch.Tensor) -> None:
        assert tensor.is_meta


def test_what_is_closed_early_is_free() -> None:
    """The batch that was copied ahead, too."""
    read: list[weakref.ref[torch.Tensor]] = []

    def note_batches() -> Iterator[torch.Tensor]:
        for picture_N, _ in build_batches(9):
            read.append(weakref.ref(picture_N))
            yield picture_N

    copied = CopiedBatches(note_batches(), HOST, RecordingStream())
    assert int(next(copied)[0]) == 1
    assert len(read) == 2 and read[1]() is not None
    del copied
    gc.collect()
    assert [each() for each in read] == [None, None]


@pytest.mark.parametrize("stream", [RecordingStream(), DirectCopies()])
def test_only_reading_counts_as_waiting_for_data(stream: CopyStream) -> None:
    """Not what happens between two batches, however many are ahead."""

    computing_s = 0.0

    def read_slowly() -> Iterator[Batch]:
        for batch in build_batches(5):
            time.sleep(0.02)
            yield batch

    before_s, began_s = DATA_WAITING.waited_s, time.perf_counter()
    for _ in CopiedBatches(MeasuredBatches(read_slowly(), HostWaitTimer()), HOST, stream):
        computed_s = time.perf_counter()
        time.sleep(0.03)
        computing_s += time.perf_counter() - computed_s
    took_s = time.perf_counter() - began_s
    assert 0.1 <= DATA_WAITING.waited_s - before_s <= took_s - computing_s


def test_an_error_of_the_loader_is_raised() -> None:
    """As without a stream: a picture that cannot be read ends the run."""

    def fail_later() -> Iterator[Batch]:
        yield from build_batches(1)
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        list(CopiedBatches(fail_later(), HOST, RecordingStream()))


def test_what_holds_no_tensor_stays_as_it_is() -> None:
    """Shapes are tuples, too."""
    assert map_batch_tensors((torch.Size([1]), 2, "three"), torch.neg) == (
        torch.Size([1]),
        2,
        "three",
    )


def test_what_goes_to_a_gpu_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """From pageable memory the host would wait for the GPU; for a CPU nothing is copied."""
    pinned: list[torch.Tensor] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    values = np.arange(4)
    assert load_for_device(values, torch.device("cuda:1")).tolist() == [0, 1, 2, 3]
    assert len(pinned) == 1
    assert load_for_device(values, HOST).data_ptr() == values.ctypes.data
    assert len(pinned) == 1
