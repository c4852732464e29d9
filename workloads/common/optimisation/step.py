"""One rank's model, optimizer and loss scaler: optimizer steps accumulated over micro-batches, and
their saved state.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import torch
from torch import nn

from suite.errors import FITTING_SETTING_NOTE, RequestError
from suite.measurement.data_waiting import MeasuredBatches
from suite.workload import Run, StepPreparation
from workloads.common import rng
from workloads.common.inputs.batches import OptimizerStep, SampleKey
from workloads.common.inputs.device_copies import CopiedBatches, open_copy_stream
from workloads.common.inputs.device_waiting import open_wait_timer
from workloads.common.optimisation import gradient_exchange, mixed_precision, sharding
from workloads.common.optimisation.graph_recording import open_graph_recorder
from workloads.common.optimisation.prepared_loss import (
    COMPILE_SETTING,
    GRAPHS_SETTING,
    Inputs,
    PreparedLoss,
    add_loss_gradients,
    describe_problem,
    preserve_training_state,
)
from workloads.common.optimisation.schedules import RateSchedule

WHOLE_STATE_FILE: Final = "state.pt"
"""What all ranks share; a sharded model has none."""
RANK_STATE_FORMAT: Final = "rank-{rank}.pt"
B = TypeVar("B")


class DivisibleBatch(Protocol):
    """A batch that can be cut."""

    def __len__(self) -> int:
        """Count its samples."""

    def take_first(self, count: int, /) -> Self:
        """Return its first samples."""


D = TypeVar("D", bound=DivisibleBatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchLimit(Generic[D]):
    """The setting that limits a micro-batch, by which smaller ones are tried when memory does not
    suffice.
    """

    setting: str
    measure: Callable[[D], int]
    """The lowest value of the setting that allows a batch."""
    compute_loss: Callable[[D], torch.Tensor]


class Stepper:
    """Takes optimizer steps; gradients are averaged over the ranks once per step.

    A sharded model (workloads/common/optimisation/sharding.py) averages them itself, after each
    micro-batch, since no rank could keep all of them; its state is saved in shards.
    """

    def __init__(
        self,
        run: Run,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float | None = None,
        sharded: bool = False,
    ) -> None:
        self._run, self._optimizer, self._clip_norm = run, optimizer, clip_norm
        self.model, self._sharded = model, sharded
        self.network = (
            model if sharded else gradient_exchange.wrap_for_gradient_exchange(model, run)
        )
        self._scaler = mixed_precision.build_loss_scaler(run.device, run.precision)
        self._losses: list[torch.Tensor] = []

    def take_planned_steps(
        self,
        planned: Sequence[OptimizerStep],
        epoch: int,
        first_step: int,
        schedule: RateSchedule,
        read_batches: Callable[[Sequence[Sequence[SampleKey]]], Iterator[B]],
        loss_of: Callable[[B], torch.Tensor],
    ) -> Generator[int, None, None]:
        """Take the steps of an epoch from `first_step`, and yield the samples of each; no sample of
        an earlier one is decoded. Every epoch has as many steps.
        """
        plan = planned[first_step:]
        batches = self.read_to_device(
            read_batches([keys for step in plan for keys in step.micro_batches])
        )
        self.network.train()
        for number, step in enumerate(plan, (epoch - 1) * len(planned) + first_step):
            self.take_step(step, schedule(number), batches, loss_of)
            yield step.samples

    def read_to_device(self, batches: Iterator[B]) -> Iterator[B]:
        """Yield batches on this rank's device, where they are copied ahead; the time that they are
        waited for is measured.
        """
        device = torch.device(self._run.device)
        measured = MeasuredBatches(batches, open_wait_timer(device))
        return CopiedBatches(measured, device, open_copy_stream(device))

    def take_step(
        self,
        step: OptimizerStep,
        rate: float,
        batches: Iterator[B],
        loss_of: Callable[[B], torch.Tensor],
    ) -> None:
        """Take one step at a learning rate; `loss_of` returns the weighted sum over a micro-batch's
        samples.
        """
        set_learning_rate(self._optimizer, rate)
        self._sum_gradients(step, batches, loss_of)
        if self._clip_norm is not None:
            self._scaler.unscale_(self._optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self._clip_norm)
        self._scaler.step(self._optimizer)
        self._scaler.update()

    def _sum_gradients(
        self, step: OptimizerStep, batches: Iterator[B], loss_of: Callable[[B], torch.Tensor]
    ) -> None:
        """Sum the gradients of a global batch; DDP divides by the number of ranks, so the loss is
        multiplied by it.
        """
        prepared = loss_of if isinstance(loss_of, PreparedLoss) else None
        self._optimizer.zero_grad(set_to_none=not (prepared and prepared.keeps_gradients))
        self._losses = []
        last, factor = len(step.micro_batches) - 1, self._run.world_size / step.samples
        for number in range(len(step.micro_batches)):
            batch = next(batches)
            with gradient_exchange.sync_gradients_if_last(self.network, last=number == last):
                if prepared:
                    loss = prepared.add_gradients(batch, factor, self._scaler)
                else:
                    loss = add_loss_gradients(loss_of(batch) * factor, self._scaler)
            self._losses.append(loss)

    def prepare_loss(
        self, loss: PreparedLoss[Any], inputs: Inputs, *, compiled: bool, recorded: bool
    ) -> list[StepPreparation]:
        """Prepare what a micro-batch of such inputs computes, as far as it is asked for, before the
        clock starts; model, gradients and generators are as before then. What fails is left as it
        is, and the reason returned.
        """
        done = []
        if compiled:
            done.append(
                self.try_preparation(
                    COMPILE_SETTING, lambda: loss.compile_loss(inputs, self._scaler)
                )
            )
        if recorded:
            done.append(
                self.try_preparation(
                    GRAPHS_SETTING,
                    lambda: loss.record_gradients(
                        inputs, self._scaler, open_graph_recorder(self._run)
                    ),
                )
            )
        self._optimizer.zero_grad(set_to_none=not loss.keeps_gradients)
        return done

    def try_preparation(self, setting: str, prepare: Callable[[], None]) -> StepPreparation:
        """Prepare something by computing gradients; return how long that took, and why it failed if
        it did. Model and generators are as before, gradients are not.
        """
        problem, began_s = "", time.perf_counter()
        self.network.train()
        self._optimizer.zero_grad()
        with (
            preserve_training_state(self.model, torch.device(self._run.device)),
            gradient_exchange.sync_gradients_if_last(self.network, last=False),
        ):
            try:
                prepare()
            except Exception as error:
                problem = describe_problem(error)
        seconds = time.perf_counter() - began_s
        return StepPreparation(setting=setting, seconds=seconds, problem=problem)

    def compute_mean_loss(self) -> float:
        """Mean loss over this rank's samples in the last step; NaN before the first."""
        return float(torch.stack(self._losses).sum()) if self._losses else float("nan")

    def take_limited_step(
        self, step: OptimizerStep, rate: float, batches: Iterator[D], limit: MicroBatchLimit[D]
    ) -> None:
        """Take one step as `take_step` does; an out-of-memory error carries a note of the limit
        that fits.
        """
        tried: list[D] = []

        def compute_loss(batch: D) -> torch.Tensor:
            tried[:] = [batch]
            return limit.compute_loss(batch)

        try:
            self.take_step(step, rate, batches, compute_loss)
        except torch.OutOfMemoryError as error:
            shortage = error.with_traceback(None)  # its frames keep the tensors of the step
        else:
            return
        for batch in tried:
            if fitting := self._find_fitting_batch(batch, limit):
                shortage.add_note(f"{FITTING_SETTING_NOTE}{limit.setting}={limit.measure(fitting)}")
        raise shortage

    def _find_fitting_batch(self, batch: D, limit: MicroBatchLimit[D]) -> D | None:
        """Halve a batch until memory suffices for its step; None if it does not for one sample."""
        while len(batch) > 1:
            batch = batch.take_first(len(batch) // 2)
            self._optimizer.zero_grad()
            if self._try_batch(batch, limit):
                return batch
        return None

    def _try_batch(self, batch: D, limit: MicroBatchLimit[D]) -> bool:
        """Return whether memory suffices for the gradients of a batch, beside Adam's two moments;
        no other rank takes part.
        """
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        moments = [] if self._optimizer.state else weights * 2
        try:
            reserved = [torch.empty_like(weight) for weight in moments]
            with gradient_exchange.sync_gradients_if_last(self.network, last=False):
                torch.autograd.grad(limit.compute_loss(batch), weights)
            del reserved
        except torch.OutOfMemoryError:
            return False
        return True

    def save(self, folder: Path) -> None:
        """Save the state: rank 0 writes what all ranks share; each rank writes its generators, its
        own batch-norm statistics and, of a sharded model, its shard.

        Statistics are not averaged here, so that a saved run and an uninterrupted one stay
        bit-identical.
        """
        if self._sharded:
            sharding.save_shards(self.model, self._optimizer, folder)
        elif self._run.rank == 0:
            shared = {
                "model": self.model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "scaler": self._scaler.state_dict(),
            }
            torch.save(shared, folder / WHOLE_STATE_FILE)
        torch.save(
            {"rng": rng.save_generator_state(), "buffers": dict(self.model.named_buffers())},
            self._build_rank_state_path(folder),
        )

    def restore(self, folder: Path) -> None:
        """Restore a saved state; nothing in it is executed. RequestError for the state of a sharded
        model that another number of ranks saved.
        """
        saved = len(list(folder.glob(RANK_STATE_FORMAT.format(rank="*"))))
        whole = (folder / WHOLE_STATE_FILE).is_file()
        if not whole and saved != self._run.world_size:
            raise RequestError(
                f"{folder}: the checkpoint was saved by {saved} ranks and cannot be resumed by"
                f" {self._run.world_size}"
            )
        device = self._run.device
        rank_state: dict[str, Any] = torch.load(
            self._build_rank_state_path(folder), map_location=device, weights_only=True
        )
        self._restore_shared_state(folder)
        self.model.load_state_dict(rank_state["buffers"], strict=False)
        rng.restore_generator_state(rank_state["rng"])

    def _restore_shared_state(self, folder: Path) -> None:
        if self._sharded:
            sharding.restore_shards(self.model, self._optimizer, folder)
            return
        shared: dict[str, Any] = torch.load(
            folder / WHOLE_STATE_FILE, map_location=self._run.device, weights_only=True
        )
        self.model.load_state_dict(shared["model"])
        self._optimizer.load_state_dict(shared["optimizer"])
        self._scaler.load_state_dict(shared["scaler"])

    def _build_rank_state_path(self, folder: Path) -> Path:
        return folder / RANK_STATE_FORMAT.format(rank=self._run.rank)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step; a group may scale it by `rate_factor`."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)
