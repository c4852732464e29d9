"""Translates sentences: an encoder, a decoder step, and the search between them.
Framework-independent.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from workloads.common.text import bucketing
from workloads.transformer.data import Sentence
from workloads.transformer.recipe import DecodingParameters
from workloads.transformer.subwords import EOS_ID, PAD_ID
from workloads.transformer.translation.beam_search import (
    ContinuationStep,
    Floats,
    Ints,
    TranslationBeams,
    search_best_translations,
)

# Legend: B sentences, K hypotheses of a sentence, C continuations of a hypothesis, S source
# positions,
# M slots of a cache: slot p K + k holds what hypothesis k wrote at position p.
T = TypeVar("T")
HIDDEN_SLOT_LOGIT: Final = -1e9
"""Added to the attention logit of a hidden slot; mlcommons/training, transformer, model_utils.py,
_NEG_INF.
"""
CACHE_GROWTH_POSITIONS: Final = 16
"""Positions by which the visible part of a cache grows: few shapes for a framework to prepare, and
little work on empty slots.
"""


class AncestryMasks:
    """Attention masks of hypotheses: each sees the slots that its own history wrote, so no cache is
    ever moved.
    """

    def __init__(self, count: int, beam: int, positions: int) -> None:
        self.mask_BKM = np.full((count, beam, beam * positions), HIDDEN_SLOT_LOGIT, np.float32)
        self._own = np.arange(beam)

    def follow_parents(self, parent_BK: Ints, position: int) -> Floats:
        """Inherit the parents' histories, add this position, and return the mask up to the
        horizon.
        """
        beam = len(self._own)
        written = position * beam
        self.mask_BKM[:, :, :written] = np.take_along_axis(
            self.mask_BKM[:, :, :written], parent_BK[:, :, None], axis=1
        )
        self.mask_BKM[:, self._own, written + self._own] = 0.0
        horizon = -(-(position + 1) // CACHE_GROWTH_POSITIONS) * CACHE_GROWTH_POSITIONS * beam
        return np.ascontiguousarray(self.mask_BKM[:, :, :horizon])


class TensorConverter(Protocol[T]):
    """What a framework must supply: conversion of arrays to tensors and back, and empty caches."""

    def copy_to_device(self, array: Ints | Floats) -> T:
        """Copy an array to the device."""

    def copy_to_host(self, tensor: T) -> Any:
        """Copy a tensor back to the host as an array."""

    def build_empty_caches(self, memory: T, slots: int) -> tuple[T, T]:
        """Create empty keys and values with this many slots, for a memory of L B H S D."""

    def update_caches(self, caches: tuple[T, T], new: Sequence[T], first: int) -> tuple[T, T]:
        """Write one position's keys and values, L B H K D, into caches from slot `first` on; in
        place if the framework can.
        """


class TransformerTranslator(Generic[T]):
    """Translates batches of sentences."""

    def __init__(
        self,
        tensors: TensorConverter[T],
        encoder: Callable[..., tuple[T, ...]],
        step: Callable[..., tuple[T, ...]],
        decoding: DecodingParameters,
    ) -> None:
        self._tensors, self._encoder, self._step, self._decoding = tensors, encoder, step, decoding

    def __call__(
        self, sources: Sequence[Sentence], extra_length: int | None = None
    ) -> list[list[int]]:
        """Return the subtokens of each sentence's best translation, without the end mark;
        `extra_length` overrides the recipe's.
        """
        source_BS = bucketing.pad_sentences(sources, PAD_ID)
        limit_B = (source_BS != PAD_ID).sum(axis=1) + (
            self._decoding.extra_length if extra_length is None else extra_length
        )
        return search_best_translations(
            self._build_beams(limit_B), self.build_continuation_step(source_BS, int(limit_B.max()))
        )

    def _build_beams(self, limit_B: Ints) -> TranslationBeams:
        return TranslationBeams(
            limit_B, self._decoding.beam, start=PAD_ID, end=EOS_ID, alpha=self._decoding.alpha
        )

    def build_continuation_step(self, source_BS: Ints, longest: int) -> ContinuationStep:
        """Encode a batch, and return the function that extends its hypotheses by a position, at
        most `longest` times.
        """
        tensors, beam = self._tensors, self._decoding.beam
        positions = -(-longest // CACHE_GROWTH_POSITIONS) * CACHE_GROWTH_POSITIONS
        source, ancestry = (
            tensors.copy_to_device(source_BS),
            AncestryMasks(len(source_BS), beam, positions),
        )
        memory = self._encoder(source)
        caches = tensors.build_empty_caches(memory[0], positions * beam)

        def compute_continuations(beams: TranslationBeams) -> tuple[Floats, Ints]:
            nonlocal caches
            mask_BKM = ancestry.follow_parents(beams.parent_BK, beams.length)
            inputs = [
                tensors.copy_to_device(array)
                for array in (beams.token_BK, np.array([beams.length], np.int64), mask_BKM)
            ]
            score, token, *new = self._step(*inputs, source, *memory, *caches)
            caches = tensors.update_caches(caches, new, beams.length * beam)
            return tensors.copy_to_host(score), tensors.copy_to_host(token)

        return compute_continuations
