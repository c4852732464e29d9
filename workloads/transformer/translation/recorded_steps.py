"""Decoder steps that were recorded before any clock, one for each batch size, source length and
visible part of the caches: a position takes some 230 kernels, for each of which the host would wait
longer than the GPU computes.

A recorded step reads and writes where it was recorded. Each tensor therefore begins at one address
for all shapes, and a worker has one batch in work at a time. A batch is padded to the next recorded
size, and its sources to a multiple of 16; sentences do not depend on each other, and no position
attends to padding.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from suite.engine import Call, RecordingCall
from workloads.common.text.recorded_shapes import (
    list_source_lengths,
    round_up_to_source_length,
    view_front,
)
from workloads.common.worker_stream import WorkerStream
from workloads.transformer.recipe import DecodingParameters
from workloads.transformer.subwords import EOS_ID, PAD_ID
from workloads.transformer.translation.beam_search import Floats, Ints
from workloads.transformer.translation.decoding import DecodingStep, round_up_to_growth

# Legend: B sentences, K hypotheses of a sentence, S source positions, M slots of a cache, L layers,
# H heads, D width of a head, C continuations of a hypothesis.
Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingLimits:
    """The largest batch that is recorded."""

    sizes: tuple[int, ...]
    """Batch sizes, ascending."""
    source_tokens: int
    """Of the longest sentence."""
    decoding: DecodingParameters

    @property
    def source_lengths(self) -> range:
        """Return the source lengths, ascending."""
        return list_source_lengths(self.source_tokens)

    def count_positions(self, source_length: int) -> int:
        """Return the positions of the longest answers to sources of a recorded length."""
        return round_up_to_growth(source_length + self.decoding.extra_length)


class StepTensors:
    """Inputs of a step, for one batch at a time: each shape takes the front of the same memory."""

    def __init__(self, limits: DecodingLimits, memory: Sequence[torch.Tensor]) -> None:
        """`memory`: the encoder's output, L B H S D, for the largest batch."""
        self._beam = limits.decoding.beam
        self._layers, most, self._heads, longest, self._size = memory[0].shape
        device, dtype = memory[0].device, memory[0].dtype
        slots = limits.count_positions(longest) * self._beam
        self._slots = slots
        self.position_1 = torch.zeros(1, dtype=torch.int64, device=device)
        self._token = torch.full((most * self._beam,), PAD_ID, dtype=torch.int64, device=device)
        self._mask = torch.zeros(most * self._beam * slots, device=device)
        self._source = torch.full((most * longest,), EOS_ID, dtype=torch.int64, device=device)
        self._memory = tuple(torch.zeros_like(part).flatten() for part in memory)
        cells = self._layers * most * self._heads * slots * self._size
        # what an earlier batch left there is finite, and is multiplied by 0 until it is written
        self._caches = tuple(torch.zeros(cells, dtype=dtype, device=device) for _ in memory)

    def get_token(self, size: int) -> torch.Tensor:
        """Return the tokens, B K."""
        return view_front(self._token, (size, self._beam))

    def get_mask(self, size: int, slots: int) -> torch.Tensor:
        """Return the mask, B K M."""
        return view_front(self._mask, (size, self._beam, slots))

    def get_source(self, size: int, length: int) -> torch.Tensor:
        """Return the sources, B S."""
        return view_front(self._source, (size, length))

    def get_memory(self, size: int, length: int) -> Tensors:
        """Return keys and values of the sources, L B H S D."""
        shape = (self._layers, size, self._heads, length, self._size)
        return tuple(view_front(part, shape) for part in self._memory)

    def get_caches(self, size: int) -> Tensors:
        """Return the caches of keys and values, L B H M D."""
        shape = (self._layers, size, self._heads, self._slots, self._size)
        return tuple(view_front(part, shape) for part in self._caches)

    def list_inputs(self, size: int, length: int, slots: int) -> Tensors:
        """Return the inputs of a step, in their order."""
        return (
            self.get_token(size),
            self.position_1,
            self.get_mask(size, slots),
            self.get_source(size, length),
            *self.get_memory(size, length),
            *self.get_caches(size),
        )


class RecordedSteps:
    """The steps of one worker."""

    def __init__(
        self,
        encoder: Call[torch.Tensor],
        limits: DecodingLimits,
        tensors: StepTensors,
        recorded: dict[tuple[int, int, int], Callable[[], Tensors]],
        stream: WorkerStream,
    ) -> None:
        self._encoder, self._limits, self._tensors = encoder, limits, tensors
        self._recorded, self._stream = recorded, stream

    def begin_batch(self, source_BS: Ints, longest: int) -> DecodingStep | None:
        """Encode a batch, and return its step; None if it is larger than what was recorded, or its
        answers may be longer.
        """
        count, length = len(source_BS), round_up_to_source_length(source_BS.shape[1])
        place = bisect_left(self._limits.sizes, count)
        if place == len(self._limits.sizes) or length not in self._limits.source_lengths:
            return None
        if longest > self._limits.count_positions(length):
            return None
        size, tensors = self._limits.sizes[place], self._tensors
        padded_BS = np.full((size, length), PAD_ID, np.int64)
        padded_BS[:, 0] = EOS_ID
        padded_BS[:count, : source_BS.shape[1]] = source_BS
        source = self._copy_into(tensors.get_source(size, length), padded_BS)
        encoded = self._encoder(source)
        for kept, new in zip(tensors.get_memory(size, length), encoded, strict=True):
            kept.copy_(new)

        def run_recorded_step(
            token_BK: Ints, position: int, mask_BKM: Floats
        ) -> tuple[Floats, Ints]:
            slots = mask_BKM.shape[2]
            self._copy_into(tensors.get_token(size)[:count], token_BK)
            self._copy_into(tensors.get_mask(size, slots)[:count], mask_BKM)
            tensors.position_1.fill_(position)
            score, token, *new = self._recorded[size, length, slots]()
            first = position * token_BK.shape[1]
            for cache, part in zip(tensors.get_caches(size), new, strict=True):
                cache[:, :, :, first : first + part.shape[3]] = part
            score, token = self._stream.copy_all_to_host((score[:count], token[:count]))
            return score.numpy(), token.numpy()

        return run_recorded_step

    def _copy_into(self, kept: torch.Tensor, array: Ints | Floats) -> torch.Tensor:
        staged = self._stream.stage_on_host(torch.from_numpy(np.ascontiguousarray(array)))
        return kept.copy_(staged, non_blocking=True)


def record_decoder_steps(
    encoder: Call[torch.Tensor],
    step: Call[torch.Tensor],
    limits: DecodingLimits,
    stream: WorkerStream,
    device: torch.device,
) -> RecordedSteps | None:
    """Record a worker's steps, the largest first, whose memory the others share; None if the engine
    records nothing.
    """
    if not isinstance(step, RecordingCall):
        return None
    beam, lengths = limits.decoding.beam, limits.source_lengths
    recorded: dict[tuple[int, int, int], Callable[[], Tensors]] = {}
    with stream.enter_inference():
        source_BS = torch.full((limits.sizes[-1], lengths[-1]), EOS_ID, device=device)
        tensors = StepTensors(limits, encoder(source_BS))
        for size, length, slots in list_recorded_shapes(limits, beam):
            work = step.record_work(*tensors.list_inputs(size, length, slots))
            if work is None:
                return None
            recorded[size, length, slots] = work
    return RecordedSteps(encoder, limits, tensors, recorded, stream)


def list_recorded_shapes(limits: DecodingLimits, beam: int) -> list[tuple[int, int, int]]:
    """Return batch size, source length and visible slots of each step, the largest first."""
    growth = round_up_to_growth(1)
    return [
        (size, length, positions * beam)
        for size in reversed(limits.sizes)
        for length in reversed(limits.source_lengths)
        for positions in range(limits.count_positions(length), 0, -growth)
    ]
