"""Copies the batches of training to their device. On a GPU the next batch is copied by a stream of
its own while this one computes; elsewhere batches are handed on as they are asked for.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy.typing as npt
import torch

B = TypeVar("B")


def load_for_device(values: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return an array as a tensor on the host; for a GPU in pinned memory, from which it is copied
    without a wait.
    """
    host = torch.from_numpy(values)
    return host.pin_memory() if device.type == "cuda" else host


class CopyStream(Protocol):
    """What copying ahead needs of a device; tests substitute their own."""

    @property
    def batches_ahead(self) -> int:
        """Batches that lie on the device beside the one that computes."""

    def enter_copies(self) -> AbstractContextManager[Any]:
        """Enter the stream that copies."""

    def mark_copies(self) -> Any:
        """Return an event behind all copies so far."""

    def await_copies(self, event: Any) -> None:
        """Let what computes wait for an event; the host goes on."""

    def keep_until_computed(self, tensor: torch.Tensor) -> None:
        """Keep a tensor's memory, once it is freed, until what was to be computed before is
        done.
        """


class DirectCopies:
    """No stream: what is asked for is copied when it is asked for."""

    batches_ahead: Final = 0

    def enter_copies(self) -> AbstractContextManager[Any]:
        """Enter nothing."""
        return nullcontext()

    def mark_copies(self) -> None:
        """Mark nothing: the copies are done."""

    def await_copies(self, event: None) -> None:
        """Wait for nothing."""

    def keep_until_computed(self, tensor: torch.Tensor) -> None:
        """Do nothing: memory is free when nobody refers to it."""


class CudaCopyStream:
    """A stream of a GPU beside the one that computes."""

    batches_ahead: Final = 1

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def enter_copies(self) -> AbstractContextManager[Any]:
        """Enter the stream; it does not wait for what computes."""
        return torch.cuda.stream(self._stream)

    def mark_copies(self) -> torch.cuda.Event:
        """Record an event."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._stream)
        return event

    def await_copies(self, event: torch.cuda.Event) -> None:
        """Let the current stream wait."""
        torch.cuda.current_stream(self._device).wait_event(event)

    def keep_until_computed(self, tensor: torch.Tensor) -> None:
        """Tell the allocator that the current stream reads the tensor."""
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(self._device))


def open_copy_stream(device: torch.device) -> CopyStream:
    """Return what copies to a device."""
    return CudaCopyStream(device) if device.type == "cuda" else DirectCopies()


class CopiedBatches(Iterator[B], Generic[B]):
    """Batches on their device, in their order, read and copied ahead by as many as the stream
    allows. One that was only read ahead is dropped with the iterator, and a run that resumes reads
    it again: where it resumes follows from the steps that were taken.
    """

    def __init__(self, batches: Iterator[B], device: torch.device, stream: CopyStream) -> None:
        self._batches, self._device, self._stream = batches, device, stream
        self._copied: deque[tuple[B, Any]] = deque()

    def __next__(self) -> B:
        while len(self._copied) <= self._stream.batches_ahead and self._copy_another():
            pass
        if not self._copied:
            raise StopIteration
        batch, event = self._copied.popleft()
        self._stream.await_copies(event)
        map_batch_tensors(batch, self._keep_tensor)
        return batch

    def _copy_another(self) -> bool:
        """Read a batch and have it copied; return whether there was one."""
        for batch in self._batches:
            with self._stream.enter_copies():
                copied = map_batch_tensors(batch, self._copy_tensor)
                self._copied.append((copied, self._stream.mark_copies()))
            return True
        return False

    def _copy_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._device, non_blocking=True)

    def _keep_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        self._stream.keep_until_computed(tensor)
        return tensor


def map_batch_tensors(batch: B, change: Callable[[torch.Tensor], torch.Tensor]) -> B:
    """Apply a function to each tensor of a batch: a tensor, or a tuple or dataclass of them."""
    given: Any = batch
    if isinstance(given, torch.Tensor):
        given = change(given)
    elif type(given) is tuple:  # not torch.Size, which is one, too
        given = tuple(map_batch_tensors(part, change) for part in given)
    elif is_dataclass(given) and not isinstance(given, type):
        parts = {field.name: getattr(given, field.name) for field in fields(given)}
        changed = {name: map_batch_tensors(part, change) for name, part in parts.items()}
        given = replace(given, **changed)
    return given  # type: ignore[no-any-return]
