"""Batches of sentences of like length. Their order follows from (seed, epoch) alone, and is the same on every rank."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Indices: TypeAlias = npt.NDArray[np.int64]
BUCKETS = 0xB0C  # keeps the stream of random numbers apart from others of the same seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One optimizer step: the sentences of its global batch and this rank's share of them."""

    samples: int
    mine: Indices
    """At least one, since every rank takes part in every step."""
    counted: int
    """How many of them count: 0 on a rank that has no share in a small batch."""


def even_bounds(longest: int, buckets: int) -> tuple[int, ...]:
    """Cut lengths up to `longest` into buckets of equal width; mlcommons/training, rnn_translator, sampler.py."""
    width = -(-longest // buckets)
    return tuple(min(width * number, longest) for number in range(1, buckets + 1))


def growing_bounds(longest: int, shortest: int, growth: float) -> tuple[int, ...]:
    """Let buckets grow by a factor, at least by 1; mlcommons/training, transformer, dataset.py: from 8, times 1.1."""
    bounds = [shortest]
    while bounds[-1] < longest:
        bounds.append(max(bounds[-1] + 1, int(bounds[-1] * growth)))
    return (*bounds[:-1], longest) if bounds[-1] > longest else tuple(bounds)


def plan(
    lengths: Indices, bounds: Sequence[int], size: Callable[[int], int], seed: int, epoch: int, rank: int = 0, world_size: int = 1
) -> list[Step]:
    """Plan an epoch: every sentence once, in batches from one bucket each, in random order.

    `lengths`: tokens of each sentence, at most the last bound. `size`: bound -> sentences of a global batch, at least 1.
    ValueError for a sentence that no bucket holds.
    """
    if len(lengths) and int(lengths.max()) > bounds[-1]:
        raise ValueError(f"a sentence of {int(lengths.max())} tokens is longer than the last bucket, {bounds[-1]}")
    rng = np.random.default_rng([seed, epoch, BUCKETS])
    order = rng.permutation(len(lengths))
    bucket = np.searchsorted(np.asarray(bounds), lengths[order])
    batches = [batch for number, bound in enumerate(bounds) for batch in cut(order[bucket == number], size(bound))]
    return [share(batches[place], rank, world_size) for place in rng.permutation(len(batches))]


def share(batch: Indices, rank: int, world_size: int) -> Step:
    """Give a rank's sentences of a global batch; where there are none, one that does not count."""
    mine = batch[rank::world_size]
    return Step(samples=len(batch), mine=mine if len(mine) else batch[:1], counted=len(mine))


def cut(indices: Indices, size: int) -> list[Indices]:
    """Cut into batches; the last may be smaller."""
    starts = [*range(0, len(indices), size), len(indices)]
    return [indices[start:stop] for start, stop in pairwise(starts)]


def padded(sentences: Sequence[npt.NDArray[np.int32]], filler: int) -> Indices:
    """Put sentences of N lengths into one N x T array."""
    longest = max((len(sentence) for sentence in sentences), default=0)
    block_NT = np.full((len(sentences), longest), filler, dtype=np.int64)
    for row_T, sentence in zip(block_NT, sentences, strict=True):
        row_T[: len(sentence)] = sentence
    return block_NT
