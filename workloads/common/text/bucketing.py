"""Batches of sentences of similar length; their order is a function of (seed, epoch) and the same
on every rank.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from workloads.common.inputs.batches import generate_epoch_order, split_into_global_batches

Indices: TypeAlias = npt.NDArray[np.int64]
BATCH_ORDER_STREAM: Final = (
    3  # kind of random draws, distinct from those of batches.py: the order of the batches
)


def compute_even_bounds(longest: int, buckets: int) -> tuple[int, ...]:
    """Divide lengths up to `longest` into buckets of equal width; mlcommons/training,
    rnn_translator, sampler.py.
    """
    width = -(-longest // buckets)
    return tuple(min(width * number, longest) for number in range(1, buckets + 1))


def compute_growing_bounds(longest: int, shortest: int, growth: float) -> tuple[int, ...]:
    """Grow buckets by a factor, at least by 1; mlcommons/training, transformer, dataset.py: from 8,
    times 1.1.
    """
    bounds = [shortest]
    while bounds[-1] < longest:
        bounds.append(max(bounds[-1] + 1, int(bounds[-1] * growth)))
    return (*bounds[:-1], longest) if bounds[-1] > longest else tuple(bounds)


def plan_bucketed_batches(
    lengths: Indices, bounds: Sequence[int], size: Callable[[int], int], seed: int, epoch: int
) -> list[Indices]:
    """Plan an epoch's global batches: every sentence once, each batch from one bucket, in random
    order; `batches.plan_rank_steps` distributes them.

    `lengths`: tokens of each sentence, at most the last bound. `size`: bound -> sentences of a
    global batch, at least 1. ValueError for a sentence that fits no bucket.
    """
    if len(lengths) and int(lengths.max()) > bounds[-1]:
        raise ValueError(
            f"a sentence of {int(lengths.max())} tokens is longer than the last bucket,"
            f" {bounds[-1]}"
        )
    shuffled = generate_epoch_order(len(lengths), seed, epoch)
    bucket_of_length = np.searchsorted(np.asarray(bounds), np.arange(bounds[-1] + 1))
    # a stable sort of narrow numbers passes over them a byte at a time
    bucket = bucket_of_length.astype(np.min_scalar_type(len(bounds)))[lengths][shuffled]
    by_bucket = shuffled[np.argsort(bucket, kind="stable")]
    stops = np.cumsum(np.bincount(bucket, minlength=len(bounds)))
    bucketed = [
        batch
        for members, bound in zip(np.split(by_bucket, stops[:-1]), bounds, strict=True)
        for batch in split_into_global_batches(members, size(bound))
    ]
    mixed = np.random.default_rng([seed, epoch, BATCH_ORDER_STREAM]).permutation(len(bucketed))
    return [bucketed[index] for index in mixed]


def pad_sentences(sentences: Sequence[npt.NDArray[np.int32]], filler: int) -> Indices:
    """Pad N sentences of different lengths to one N x T array."""
    longest = max((len(sentence) for sentence in sentences), default=0)
    block_NT = np.full((len(sentences), longest), filler, dtype=np.int64)
    for row_T, sentence in zip(block_NT, sentences, strict=True):
        row_T[: len(sentence)] = sentence
    return block_NT
