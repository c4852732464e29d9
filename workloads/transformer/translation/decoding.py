"""Translates sentences: an encoder, a decoder step, and the search between them.
Framework-independent.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

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


def round_up_to_growth(positions: int) -> int:
    """Round up to a multiple of the positions by which caches grow."""
    return -(-positions // CACHE_GROWTH_POSITIONS) * CACHE_GROWTH_POSITIONS


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
        horizon = round_up_to_growth(position + 1) * beam
        return np.ascontiguousarray(self.mask_BKM[:, :, :horizon])


class TensorConverter(Protocol[T]):
    """What a framework must supply: conversion of arrays to tensors and back, and empty caches."""

    def open_worker(self) -> "TensorConverter[T]":
        """Return the same for one worker, with what no two workers may share."""

    def enter_inference_mode(self) -> AbstractContextManager[object]:
        """Enter the framework's inference mode, in this thread."""

    def copy_to_device(self, array: Ints | Floats) -> T:
        """Copy an array to the device."""

    def copy_to_host(self, tensors: Sequence[T]) -> Sequence[Any]:
        """Copy tensors back to the host as arrays."""

    def build_empty_caches(self, memory: T, slots: int) -> tuple[T, T]:
        """Create empty keys and values with this many slots, for a memory of L B H S D."""

    def update_caches(self, caches: tuple[T, T], new: Sequence[T], first: int) -> tuple[T, T]:
        """Write one position's keys and values, L B H K D, into caches from slot `first` on; in
        place if the framework can.
        """


DecodingStep: TypeAlias = Callable[[Ints, int, Floats], tuple[Floats, Ints]]
"""Maps tokens B K, their position and their mask B K M to scores and tokens of continuations."""


class RecordedDecoder(Protocol):
    """Decoder steps that were recorded before any clock, for batches of some shapes."""

    def begin_batch(self, source_BS: Ints, longest: int) -> DecodingStep | None:
        """Encode a batch, and return its step, for at most `longest` positions; None for a batch
        of another shape.
        """


class TransformerTranslator(Generic[T]):
    """Translates batches of sentences; `recorded` steps replace those that they stand for."""

    def __init__(
        self,
        tensors: TensorConverter[T],
        encoder: Callable[..., tuple[T, ...]],
        step: Callable[..., tuple[T, ...]],
        decoding: DecodingParameters,
        recorded: RecordedDecoder | None = None,
    ) -> None:
        self._tensors, self._encoder, self._step, self._decoding = tensors, encoder, step, decoding
        self._recorded = recorded

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
        with self._tensors.enter_inference_mode():
            step = self.build_continuation_step(source_BS, int(limit_B.max()))
            return search_best_translations(self._build_beams(limit_B), step)

    def _build_beams(self, limit_B: Ints) -> TranslationBeams:
        return TranslationBeams(
            limit_B, self._decoding.beam, start=PAD_ID, end=EOS_ID, alpha=self._decoding.alpha
        )

    def build_continuation_step(self, source_BS: Ints, longest: int) -> ContinuationStep:
        """Encode a batch, and return the function that extends its hypotheses by a position, at
        most `longest` times.
        """
        positions = round_up_to_growth(longest)
        ancestry = AncestryMasks(len(source_BS), self._decoding.beam, positions)
        step = self._recorded.begin_batch(source_BS, longest) if self._recorded else None
        step = step or self._begin_eager_batch(source_BS, positions)

        def compute_continuations(beams: TranslationBeams) -> tuple[Floats, Ints]:
            mask_BKM = ancestry.follow_parents(beams.parent_BK, beams.length)
            return step(beams.token_BK, beams.length, mask_BKM)

        return compute_continuations

    def _begin_eager_batch(self, source_BS: Ints, positions: int) -> DecodingStep:
        tensors, beam = self._tensors, self._decoding.beam
        source = tensors.copy_to_device(source_BS)
        memory = self._encoder(source)
        caches = tensors.build_empty_caches(memory[0], positions * beam)

        def run_eager_step(token_BK: Ints, position: int, mask_BKM: Floats) -> tuple[Floats, Ints]:
            nonlocal caches
            inputs = [
                tensors.copy_to_device(array)
                for array in (token_BK, np.array([position], np.int64), mask_BKM)
            ]
            score, token, *new = self._step(*inputs, source, *memory, *caches)
            caches = tensors.update_caches(caches, new, position * beam)
            score_BKC, token_BKC = tensors.copy_to_host((score, token))
            return score_BKC, token_BKC

        return run_eager_step
