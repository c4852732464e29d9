"""The samples of each optimizer step, and the loader that reads them: functions of (seed, epoch,
sample) alone.

They do not depend on a worker process, on the number of workers, or on where a run was resumed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from suite.errors import RequestError
from suite.process.signals import defer_worker_end, kill_children_at_exit

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


class PlannedMicroBatch(Sequence[SampleKey]):
    """The keys of a micro-batch, kept as an array of indices and made when they are read.

    An epoch of ImageNet has 1.28 million keys: as objects they take seconds of the timed thread, as
    arrays a tenth of a second, and a worker process is sent one array for each batch.
    """

    __slots__ = ("_epoch", "_index_N", "_real")

    def __init__(self, index_N: npt.NDArray[np.int64], epoch: int, real: int) -> None:
        """`real`: samples that count; those behind them only fill the batch."""
        self._index_N, self._epoch, self._real = index_N, epoch, real

    def __len__(self) -> int:
        return len(self._index_N)

    @overload
    def __getitem__(self, place: int) -> SampleKey: ...

    @overload
    def __getitem__(self, place: slice) -> list[SampleKey]: ...

    def __getitem__(self, place: int | slice) -> SampleKey | list[SampleKey]:
        return list(self)[place]

    def __iter__(self) -> Iterator[SampleKey]:
        for number, index in enumerate(self._index_N.tolist()):
            weight = 1.0 if number < self._real else 0.0
            yield SampleKey(index=index, epoch=self._epoch, weight=weight)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((self._index_N.tobytes(), self._epoch, self._real))


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStep:
    """One optimizer step: the samples of its global batch and this rank's micro-batches."""

    samples: int
    micro_batches: tuple[Sequence[SampleKey], ...]


class BatchSequence:
    """The batches of the next pass, a sequence of keys each; a DataLoader's batch sampler."""

    def __init__(self) -> None:
        self.batches: Sequence[Sequence[Any]] = ()

    def __iter__(self) -> Iterator[Sequence[Any]]:
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
        if workers:
            kill_children_at_exit()
        self.plan = BatchSequence()
        self.loader: DataLoader[S] = DataLoader(
            samples,
            batch_sampler=self.plan,  # type: ignore[arg-type]  # the stubs want lists
            num_workers=workers,
            collate_fn=collate,
            persistent_workers=workers > 0,
            pin_memory=pinned,
            worker_init_fn=defer_worker_end,
            # creating an iterator would draw from the global generator, and a resumed run would
            # differ
            generator=torch.Generator(),
        )

    def read(self, batches: Sequence[Sequence[Any]]) -> Iterator[B]:
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


def count_rank_micro_batches(batch_size: int, span: int, world_size: int) -> int:
    """Return how many micro-batches of at most `span` each rank has of a global batch."""
    return math.ceil(batch_size / (span * world_size))


def select_rank_micro_batches(
    batch: npt.NDArray[np.int64], span: int, rank: int, world_size: int
) -> list[npt.NDArray[np.int64]]:
    """Split a global batch into micro-batches of at most `span`, equally many on each rank, and
    return this rank's.
    """
    rounds = count_rank_micro_batches(len(batch), span, world_size)
    return np.array_split(batch, rounds * world_size)[rank::world_size]


def build_micro_batch_keys(
    part: npt.NDArray[np.int64], batch: npt.NDArray[np.int64], epoch: int
) -> PlannedMicroBatch:
    """Return the keys of a micro-batch. Batch-norm needs two images: a missing one is repeated
    from the batch, with weight 0.
    """
    if len(part) >= 2:
        return PlannedMicroBatch(part, epoch, len(part))
    filling = np.resize(batch, 2 - len(part))
    return PlannedMicroBatch(np.concatenate([part, filling]), epoch, len(part))


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
