"""Translates sentences: an encoder, a decoder step, and the search between them.
Framework-independent.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from workloads.common.text import bucketing
from workloads.transformer.data import Sentence
from workloads.transformer.recipe import Decoding
from workloads.transformer.subwords import EOS_ID, PAD_ID
from workloads.transformer.translation.beam_search import Beams, Floats, Ints, Step, search

# Legend: B sentences, K hypotheses of a sentence, C continuations of a hypothesis, S source
# positions,
# M slots of a cache: slot p K + k holds what hypothesis k wrote at position p.
T = TypeVar("T")
HIDDEN: Final = np.float32(-1e9)
"""Added to the attention logit of a hidden slot; mlcommons/training, transformer, model_utils.py,
_NEG_INF.
"""
HORIZON: Final = 16
"""Positions by which the visible part of a cache grows: few shapes for a framework to prepare, and
little work on empty slots.
"""


class Ancestry:
    """Attention masks of hypotheses: each sees the slots that its own history wrote, so no cache is
    ever moved.
    """

    def __init__(self, count: int, beam: int, positions: int) -> None:
        self.mask_BKM = np.full((count, beam, beam * positions), HIDDEN, np.float32)
        self._own = np.arange(beam)

    def follow(self, parent_BK: Ints, position: int) -> Floats:
        """Inherit the parents' histories, add this position, and return the mask up to the
        horizon.
        """
        beam = len(self._own)
        written = position * beam
        self.mask_BKM[:, :, :written] = np.take_along_axis(
            self.mask_BKM[:, :, :written], parent_BK[:, :, None], axis=1
        )
        self.mask_BKM[:, self._own, written + self._own] = 0.0
        horizon = -(-(position + 1) // HORIZON) * HORIZON * beam
        return np.ascontiguousarray(self.mask_BKM[:, :, :horizon])


class Tensors(Protocol[T]):
    """What a framework must supply: conversion of arrays to tensors and back, and empty caches."""

    def put(self, array: Ints | Floats) -> T:
        """Copy an array to the device."""

    def take(self, tensor: T) -> Any:
        """Copy a tensor back to the host as an array."""

    def caches(self, memory: T, slots: int) -> tuple[T, T]:
        """Create empty keys and values with this many slots, for a memory of L B H S D."""

    def written(self, caches: tuple[T, T], new: Sequence[T], first: int) -> tuple[T, T]:
        """Write one position's keys and values, L B H K D, into caches from slot `first` on; in
        place if the framework can.
        """


class Translator(Generic[T]):
    """Translates batches of sentences."""

    def __init__(
        self,
        tensors: Tensors[T],
        encoder: Callable[..., tuple[T, ...]],
        step: Callable[..., tuple[T, ...]],
        decoding: Decoding,
    ) -> None:
        self._tensors, self._encoder, self._step, self._decoding = tensors, encoder, step, decoding

    def __call__(
        self, sources: Sequence[Sentence], extra_length: int | None = None
    ) -> list[list[int]]:
        """Return the subtokens of each sentence's best translation, without the end mark;
        `extra_length` overrides the recipe's.
        """
        source_BS = bucketing.padded(sources, PAD_ID)
        limit_B = (source_BS != PAD_ID).sum(axis=1) + (
            self._decoding.extra_length if extra_length is None else extra_length
        )
        return search(self._beams(limit_B), self.stepper(source_BS, int(limit_B.max())))

    def _beams(self, limit_B: Ints) -> Beams:
        return Beams(
            limit_B, self._decoding.beam, start=PAD_ID, end=EOS_ID, alpha=self._decoding.alpha
        )

    def stepper(self, source_BS: Ints, longest: int) -> Step:
        """Encode a batch, and return the function that extends its hypotheses by a position, at
        most `longest` times.
        """
        tensors, beam = self._tensors, self._decoding.beam
        positions = -(-longest // HORIZON) * HORIZON
        source, ancestry = tensors.put(source_BS), Ancestry(len(source_BS), beam, positions)
        memory = self._encoder(source)
        caches = tensors.caches(memory[0], positions * beam)

        def step(beams: Beams) -> tuple[Floats, Ints]:
            nonlocal caches
            mask_BKM = ancestry.follow(beams.parent_BK, beams.length)
            given = [
                tensors.put(array)
                for array in (beams.token_BK, np.array([beams.length], np.int64), mask_BKM)
            ]
            score, token, *new = self._step(*given, source, *memory, *caches)
            caches = tensors.written(caches, new, beams.length * beam)
            return tensors.take(score), tensors.take(token)

        return step
