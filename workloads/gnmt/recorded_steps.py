"""Decoder steps that were recorded before any clock, one for each batch size and source length; the
search around them stays as it is.

A batch is padded to the next recorded size, and its sources to a multiple of 16: sentences do not
depend on each other, and no hypothesis attends to padding.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from suite.engine import Call, RecordingCall
from workloads.common.text.beam_search import BeamDecoderStep, DecoderState
from workloads.common.text.recorded_shapes import (
    list_source_lengths,
    round_up_to_source_length,
    view_front,
)

# Legend: N sentences of a batch, S source positions, K beams, B = N K, H hidden width, L decoder
# layers, V vocabulary.
Tensors: TypeAlias = tuple[torch.Tensor, ...]


class GNMTStepTensors:
    """Inputs of a step, for one batch at a time: each shape takes the front of the same memory."""

    def __init__(
        self, most: int, longest: int, beams: int, layers: int, kind: torch.Tensor
    ) -> None:
        """`kind`: a tensor whose last axis is H, on the device and of the type of the states."""
        self._beams, self._layers, self._width = beams, layers, kind.shape[-1]
        device = kind.device
        self._token = torch.zeros(most * beams, dtype=torch.int64, device=device)
        states, sources = most * beams * layers * self._width, most * longest * self._width
        self._states = tuple(kind.new_zeros(states) for _ in range(2))
        self._sources = tuple(kind.new_zeros(sources) for _ in range(2))
        self._known = torch.zeros(most * longest, dtype=torch.bool, device=device)

    def list_inputs(self, size: int, length: int) -> Tensors:
        """Return token, hidden and cell state, memory, key and known positions."""
        state = (size * self._beams, self._layers, self._width)
        return (
            view_front(self._token, (size, self._beams)),
            *(view_front(part, state) for part in self._states),
            *(view_front(part, (size, length, self._width)) for part in self._sources),
            view_front(self._known, (size, length)),
        )


class RecordedGNMTSteps:
    """The steps of one worker."""

    def __init__(
        self,
        tensors: GNMTStepTensors,
        sizes: Sequence[int],
        recorded: dict[tuple[int, int], Callable[[], Tensors]],
    ) -> None:
        self._tensors, self._sizes, self._recorded = tensors, sizes, recorded

    def begin_batch(
        self, memory_NSH: torch.Tensor, key_NSH: torch.Tensor, known_NS: torch.Tensor
    ) -> BeamDecoderStep | None:
        """Return the step of an encoded batch; None if it is larger than what was recorded."""
        count, tokens = known_NS.shape
        place = bisect_left(self._sizes, count)
        size = self._sizes[place] if place < len(self._sizes) else 0
        length = round_up_to_source_length(tokens)
        work = self._recorded.get((size, length))
        if work is None:
            return None
        token, *states, memory, key, known = self._tensors.list_inputs(size, length)
        known.fill_(False)
        known[:, 0] = True  # of rows without a sentence, so that their attention is a number
        for kept, new in ((memory, memory_NSH), (key, key_NSH), (known, known_NS)):
            kept[:count, :tokens].copy_(new)

        def run_recorded_step(
            token_NK: torch.Tensor, state: DecoderState
        ) -> tuple[torch.Tensor, torch.Tensor, DecoderState]:
            token[:count].copy_(token_NK)
            rows = token_NK.numel()
            for kept, new in zip(states, state, strict=True):
                kept[:rows].copy_(new)
            logit, share, *more = work()
            return logit[:count], share[:count, :, :tokens], tuple(part[:rows] for part in more)

        return run_recorded_step


def record_gnmt_steps(
    step: Call[torch.Tensor],
    encode_example: Callable[[], torch.Tensor],
    *,
    sizes: Sequence[int],
    longest: int,
    beams: int,
    layers: int,
) -> RecordedGNMTSteps | None:
    """Record a worker's steps for batches of these sizes, ascending, and sources up to the longest;
    the largest first, whose memory the others share. None if the engine records nothing.

    `encode_example`: returns the memory of any batch, N S H.
    """
    if not isinstance(step, RecordingCall):
        return None
    lengths = list_source_lengths(longest)
    recorded: dict[tuple[int, int], Callable[[], Tensors]] = {}
    with torch.inference_mode():
        tensors = GNMTStepTensors(sizes[-1], lengths[-1], beams, layers, encode_example())
        for size, length in ((size, length) for size in sizes[::-1] for length in lengths[::-1]):
            work = step.record_work(*tensors.list_inputs(size, length))
            if work is None:
                return None
            recorded[size, length] = work
    return RecordedGNMTSteps(tensors, sizes, recorded)
