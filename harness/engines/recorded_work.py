"""Work of a torch module on tensors that stay where they are, recorded as CUDA graphs: a graph
launches in one call what the host would launch kernel by kernel.

It reads and writes the addresses that it was recorded with (PyTorch, CUDA semantics, CUDA graphs).
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import shorten
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    import torch

    from harness.engines.gpu_device import GpuDevice

    Tensors = tuple[torch.Tensor, ...]

MAX_REASON_CHARACTERS: Final = 200
"""Characters of an exception's message that a sentence quotes."""


class UnrecordableError(Exception):
    """A network whose work a graph cannot stand for, and why."""


class RecordedWork:
    """Repeats recorded work when it is called; the output tensors are the same ones each time."""

    def __init__(self, outputs: list[Tensors], replay: Callable[[], None]) -> None:
        self._outputs, self._replay = outputs, replay

    @property
    def outputs(self) -> Tensors:
        """What the work writes."""
        return self._outputs[0]

    def __call__(self) -> Tensors:
        """Repeat the work on what the inputs hold now."""
        self._replay()
        return self.outputs


class WorkRecorder:
    """Records one worker's calls. They share their memory, since a worker makes one at a time."""

    def __init__(
        self,
        run: Callable[..., Tensors],
        place_input: Callable[[torch.Tensor], torch.Tensor],
        device: GpuDevice,
    ) -> None:
        """`place_input` returns an input where and as `run` reads it."""
        self._run, self._place, self._device = run, place_input, device
        self._stream, self._pool = device.create_stream(), device.create_memory_pool()
        self.recordings = 0
        """How many there are."""

    def record_work(self, *inputs: torch.Tensor) -> RecordedWork:
        """Run once, since a first run does work that cannot be recorded; then record.
        UnrecordableError for an input that would be copied before it is read.
        """
        if any(self._place(tensor).data_ptr() != tensor.data_ptr() for tensor in inputs):
            raise UnrecordableError("an input does not lie as the network reads it")
        outputs: list[Tensors] = []

        def run_once() -> None:
            outputs[:] = [self._run(*inputs)]

        with self._device.enter_stream(self._stream):
            run_once()
        replay = self._device.record_graph(self._stream, run_once, self._pool)
        self.recordings += 1
        return RecordedWork(outputs, replay)


class RecordableCall:
    """A call of a worker that runs eager, and records on request (suite.engine.RecordingCall)."""

    def __init__(
        self,
        call: Callable[..., Tensors],
        recorder: WorkRecorder,
        report_failure: Callable[[Exception], None],
    ) -> None:
        self._call, self._report_failure = call, report_failure
        self._recorder: WorkRecorder | None = recorder

    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        """Run the network."""
        return self._call(*inputs)

    def record_work(self, *inputs: torch.Tensor) -> RecordedWork | None:
        """Record the work on these tensors; None, from the first failure on, which is reported."""
        if self._recorder is None:
            return None
        try:
            return self._recorder.record_work(*inputs)
        except Exception as error:  # of PyTorch, CUDA or the module, each with its own types
            self._recorder = None
            self._report_failure(error)
            return None


def print_recording_failure(engine: str, network: str, error: Exception) -> None:
    """Say in one sentence that a network runs eager, and why."""
    reason = shorten(str(error) or type(error).__name__, MAX_REASON_CHARACTERS)
    click.echo(
        f"engine {engine}: network {network} could not be recorded as CUDA graphs ({reason}); it"
        " runs eager",
        err=True,
    )
