"""The samples of each optimizer step, and the loader that reads them: functions of (seed, epoch,
sample) alone.

They do not depend on a worker process, on the number of workers, or on where a run was resumed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from suite.errors import RequestError
from suite.process.signals import defer_worker_end

S = TypeVar("S")
B = TypeVar("B")
C = TypeVar("C", covariant=True)

ORDER_STREAM, AUGMENTATION_STREAM = 1, 2  # kinds of random draws; keeps their streams apart


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleKey:
    """One sample of one epoch: everything that determines its augmentation."""

    index: int
    epoch: int = 0
    weight: float = 1.0
    """0 for a sample that only fills a batch."""

    def create_generator(self, seed: int) -> np.random.Generator:
        """Create the generator of this sample's augmentation."""
        return np.random.default_rng([seed, self.epoch, self.index, AUGMENTATION_STREAM])


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStep:
    """One optimizer step: the samples of its global batch and this rank's micro-batches."""

    samples: int
    micro_batches: tuple[list[SampleKey], ...]


class BatchSequence:
    """The batches of the next pass, a list of keys each; a DataLoader's batch sampler."""

    def __init__(self) -> None:
        self.batches: Sequence[list[Any]] = ()

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class BatchCollator(Protocol[C]):
    """Collates samples; must pickle."""

    def __call__(self, samples: Sequence[Any], /) -> C:
        """Collate one batch."""


class BatchLoader(Generic[S, B]):
    """One DataLoader whose workers stay alive across passes."""

    def __init__(
        self, samples: Dataset[S], collate: BatchCollator[B], workers: int, *, pinned: bool
    ) -> None:
        self.plan = BatchSequence()
        self.loader: DataLoader[S] = DataLoader(
            samples,
            batch_sampler=self.plan,
            num_workers=workers,
            collate_fn=collate,
            persistent_workers=workers > 0,
            pin_memory=pinned,
            worker_init_fn=defer_worker_end,
            # creating an iterator would draw from the global generator, and a resumed run would
            # differ
            generator=torch.Generator(),
        )

    def read(self, batches: Sequence[list[Any]]) -> Iterator[B]:
        """Yield the batches; earlier ones are never decoded."""
        self.plan.batches = batches
        return iter(self.loader)


def generate_epoch_order(count: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return the sample order of an epoch, the same on every rank."""
    return np.random.default_rng([seed, epoch, ORDER_STREAM]).permutation(count)


def split_into_global_batches(
    indices: npt.NDArray[np.int64], batch_size: int
) -> list[npt.NDArray[np.int64]]:
    """Split an order into global batches; the last has the remainder."""
    return [indices[start : start + batch_size] for start in range(0, len(indices), batch_size)]


def select_rank_micro_batches(
    batch: npt.NDArray[np.int64], span: int, rank: int, world_size: int
) -> list[npt.NDArray[np.int64]]:
    """Split a global batch into micro-batches of at most `span`, equally many on each rank, and
    return this rank's.
    """
    rounds = math.ceil(len(batch) / (span * world_size))
    return np.array_split(batch, rounds * world_size)[rank::world_size]


def build_micro_batch_keys(
    part: npt.NDArray[np.int64], batch: npt.NDArray[np.int64], epoch: int
) -> list[SampleKey]:
    """Return the keys of a micro-batch. Batch-norm needs two images: a missing one is repeated
    from the batch, with weight 0.
    """
    filling = np.resize(batch, max(0, 2 - len(part)))
    real = [SampleKey(index=int(index), epoch=epoch) for index in part]
    return real + [SampleKey(index=int(index), epoch=epoch, weight=0.0) for index in filling]


def plan_rank_steps(
    batches: Sequence[npt.NDArray[np.int64]], span: int, epoch: int, rank: int, world_size: int
) -> list[OptimizerStep]:
    """Plan the steps of global batches: this rank's part of each."""
    return [
        OptimizerStep(
            samples=len(batch),
            micro_batches=tuple(
                build_micro_batch_keys(part, batch, epoch)
                for part in select_rank_micro_batches(batch, span, rank, world_size)
            ),
        )
        for batch in batches
    ]


def plan_epoch_steps(
    count: int, batch_size: int, span: int, seed: int, epoch: int, rank: int, world_size: int
) -> list[OptimizerStep]:
    """Plan an epoch over `count` samples in the epoch's own order."""
    return plan_rank_steps(
        split_into_global_batches(generate_epoch_order(count, seed, epoch), batch_size),
        span,
        epoch,
        rank,
        world_size,
    )


def plan_evaluation_batches(
    count: int, batch_size: int, rank: int, world_size: int
) -> list[list[SampleKey]]:
    """Plan an evaluation: this rank's share of all samples, each once."""
    rank_samples = range(rank, count, world_size)
    return [
        [SampleKey(index=index) for index in rank_samples[start : start + batch_size]]
        for start in range(0, len(rank_samples), batch_size)
    ]


def plan_even_evaluation_batches(
    count: int, batch_size: int, rank: int, world_size: int
) -> list[list[SampleKey]]:
    """Plan an evaluation with equally many batches on each rank, which a sharded model needs: a
    batch too many holds one sample of weight 0.
    """
    planned = plan_evaluation_batches(count, batch_size, rank, world_size)
    most = len(plan_evaluation_batches(count, batch_size, 0, world_size))
    filling = [SampleKey(index=0, weight=0.0)]
    return planned + [filling] * (most - len(planned))


def check_micro_batch_span(batch_size: int, span: int, world_size: int) -> None:
    """Reject a global batch that the ranks cannot divide into micro-batches of the span given in
    the log.
    """
    if batch_size % (span * world_size):
        raise RequestError(
            f"global_batch_size {batch_size} is not a multiple of model_bn_span {span} times "
            f"{world_size} ranks; --set model_bn_span={max(1, batch_size // world_size)} gives "
            "each rank one micro-batch"
        )
