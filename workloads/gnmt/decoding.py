"""Translates source sentences: encoder and decoder step, combined by beam search. Shared by
training's evaluation and serving.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch

from workloads.common.text.beam_search import (
    BeamParameters,
    DecoderState,
    search_best_answers,
    truncate_answers_at_end,
)
from workloads.common.text.encoded import Tokens
from workloads.gnmt.data import build_padded_tensors
from workloads.gnmt.model import GNMTNetwork, GNMTServingDecoderStep, GNMTServingEncoder
from workloads.gnmt.recorded_steps import RecordedGNMTSteps
from workloads.gnmt.scoring import GNMT_END_ID, GNMT_PAD_ID, GNMT_START_ID

# Legend: N sentences of a batch, S source positions, K beams, B = N K, H hidden width, L decoder
# layers, V vocabulary.
Tensors: TypeAlias = tuple[torch.Tensor, ...]

# mlcommons/training, rnn_translator, train.py: beam size, length penalty, coverage penalty
EVALUATION_BEAM_RULE: Final = (
    5,
    0.6,
    0.1,
)
# mlcommons/inference v0.5, wmt16_gnmt_4_layer.json: the same three
SERVING_BEAM_RULE: Final = (
    10,
    1.0,
    0.0,
)


def build_gnmt_beam(rule: tuple[int, float, float], max_length: int) -> BeamParameters:
    """Create a rule's beam for answers of at most `max_length` tokens."""
    size, length_penalty, coverage_penalty = rule
    return BeamParameters(
        size=size,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        max_length=max_length,
        start=GNMT_START_ID,
        end=GNMT_END_ID,
        filler=GNMT_PAD_ID,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMTTranslator:
    """The two networks of one worker."""

    run_encoder: Callable[..., Tensors]
    run_decoder_step: Callable[..., Tensors]
    layers: int
    device: torch.device
    recorded: RecordedGNMTSteps | None = None
    """Steps that replace those that they stand for."""

    @classmethod
    def build_without_engine(cls, network: GNMTNetwork, device: torch.device) -> "GNMTTranslator":
        """Build a translator that runs the network itself, without an engine."""
        return cls(
            run_encoder=GNMTServingEncoder(network),
            run_decoder_step=GNMTServingDecoderStep(network),
            layers=len(network.decoder.layers),
            device=device,
        )

    def translate_sentences(
        self, sources: Sequence[Tokens], beam: BeamParameters
    ) -> list[list[int]]:
        """Translate a batch of sentences to token ids, each up to its end mark, exclusive."""
        source_NS, length_N = (tensor.to(self.device) for tensor in build_padded_tensors(sources))
        memory_NSH, key_NSH = (
            found.contiguous() for found in self.run_encoder(source_NS, length_N)
        )
        known_NS = source_NS != GNMT_PAD_ID

        def decode_next_token(
            token_NK: torch.Tensor, state: DecoderState
        ) -> tuple[torch.Tensor, torch.Tensor, DecoderState]:
            logit_NKV, share_NKS, *more = self.run_decoder_step(
                token_NK, *state, memory_NSH, key_NSH, known_NS
            )
            return logit_NKV, share_NKS, tuple(more)

        begun = self.recorded and self.recorded.begin_batch(memory_NSH, key_NSH, known_NS)
        zero_NLH = memory_NSH.new_zeros(len(sources), self.layers, memory_NSH.shape[-1])
        return truncate_answers_at_end(
            search_best_answers(begun or decode_next_token, (zero_NLH, zero_NLH), known_NS, beam),
            GNMT_END_ID,
        )
