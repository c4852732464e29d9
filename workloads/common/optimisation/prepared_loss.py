"""The loss of a micro-batch as a function of tensors of known shapes: computed as it is, compiled,
or recorded with its gradients as a CUDA graph. What is prepared is prepared before the clock; a
micro-batch of other shapes, such as the last one of an epoch, is computed as it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeAlias, TypeVar

import torch
from torch import nn

from suite.errors import PodiumError
from suite.events import PREPARING_SETTINGS
from suite.workload import Run
from workloads.common.optimisation import mixed_precision
from workloads.common.optimisation.graph_recording import GraphRecorder

B = TypeVar("B")
Inputs: TypeAlias = tuple[torch.Tensor, ...]
Signature: TypeAlias = tuple[tuple[torch.Size, tuple[int, ...], torch.dtype], ...]
"""Shape, strides and type of each input."""
LossFunction: TypeAlias = Callable[..., torch.Tensor]

COMPILE_SETTING, GRAPHS_SETTING = PREPARING_SETTINGS


class PreparedLoss(Generic[B]):
    """The loss of a micro-batch, summed over its samples, and its gradients."""

    def __init__(
        self, run: Run, select_inputs: Callable[[B], Inputs], compute_loss: LossFunction
    ) -> None:
        """`select_inputs`: what of a batch on the device the loss is computed from, by work that
        needs no gradients. `compute_loss`: inputs -> loss, without a look at their values.
        """
        self._run, self._select_inputs, self._eager = run, select_inputs, compute_loss
        self._compiled: dict[Signature, LossFunction] = {}
        self._recorded: dict[Signature, RecordedGradients] = {}

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients have to stay where they are, since graphs add to them."""
        return bool(self._recorded)

    def __call__(self, batch: B) -> torch.Tensor:
        """Return the loss of a batch on the device."""
        return self._compute_loss(self._select_inputs(batch))

    def add_gradients(self, batch: B, factor: float, scaler: torch.amp.GradScaler) -> torch.Tensor:
        """Add the gradients of `factor` times the loss to those of the step; return that loss."""
        inputs = self._select_inputs(batch)
        if recorded := self._recorded.get(describe_inputs(inputs)):
            return recorded.replay_step(inputs, factor)
        return add_loss_gradients(self._compute_loss(inputs) * factor, scaler)

    def compile_loss(self, inputs: Inputs, scaler: torch.amp.GradScaler) -> None:
        """Compile forward and backward pass for inputs like these, by computing them."""
        self._compiled[describe_inputs(inputs)] = torch.compile(self._eager, dynamic=False)
        try:
            add_loss_gradients(self._compute_loss(inputs), scaler)
        except BaseException:
            self._compiled.clear()
            raise

    def record_gradients(
        self, inputs: Inputs, scaler: torch.amp.GradScaler, recorder: GraphRecorder
    ) -> None:
        """Record forward and backward pass for inputs like these."""
        recorded = RecordedGradients(self._compute_loss, inputs, scaler, recorder)
        self._recorded[describe_inputs(inputs)] = recorded

    def _compute_loss(self, inputs: Inputs) -> torch.Tensor:
        """Compute the loss; each weight is converted where it is used, once, so that no conversion
        is kept: a graph may not read what was converted outside it.
        """
        compute = self._compiled.get(describe_inputs(inputs), self._eager)
        device, precision = self._run.device, self._run.precision
        with mixed_precision.build_autocast(device, precision, keep_casts=False):
            return compute(*inputs)


class RecordedGradients:
    """Forward and backward pass of one micro-batch, recorded: the graph reads its inputs from
    buffers, adds to the gradients where they are, and writes the loss into another buffer.
    """

    def __init__(
        self,
        compute_loss: Callable[[Inputs], torch.Tensor],
        inputs: Inputs,
        scaler: torch.amp.GradScaler,
        recorder: GraphRecorder,
    ) -> None:
        self._inputs = tuple(each.clone() for each in inputs)
        self._factor = torch.ones((), device=inputs[0].device)
        self._loss = torch.zeros((), device=inputs[0].device)

        def add_gradients() -> None:
            loss = compute_loss(self._inputs) * self._factor
            self._loss.copy_(add_loss_gradients(loss, scaler))

        self._run_graph = recorder.record_work(add_gradients)

    def replay_step(self, inputs: Inputs, factor: float) -> torch.Tensor:
        """Add the gradients of `factor` times the loss of inputs; return that loss."""
        for buffer, tensor in zip(self._inputs, inputs, strict=True):
            buffer.copy_(tensor, non_blocking=True)
        self._factor.fill_(factor)
        self._run_graph()
        return self._loss.clone()  # the next replay overwrites it


def add_loss_gradients(loss: torch.Tensor, scaler: torch.amp.GradScaler) -> torch.Tensor:
    """Add the gradients of a loss; return the loss without its history."""
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def describe_inputs(inputs: Inputs) -> Signature:
    """Describe what inputs must have in common to be computed by the same compiled function."""
    return tuple((each.shape, each.stride(), each.dtype) for each in inputs)


@contextmanager
def preserve_training_state(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Give a model its buffers and the process its random generators back behind the block."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            for name, buffer in model.named_buffers():
                buffer.copy_(buffers[name])


def describe_problem(error: Exception) -> str:
    """Say in one line why a preparation failed."""
    if isinstance(error, PodiumError):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
