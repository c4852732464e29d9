"""Translates source sentences: encoder and decoder step, combined by beam search. Shared by
training's evaluation and serving.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch

from workloads.common.text.beam_search import Beam, State, search, words
from workloads.common.text.encoded import Tokens
from workloads.gnmt.data import side_by_side
from workloads.gnmt.model import GNMT, Reader, Writer
from workloads.gnmt.scoring import END, PAD, START

# Legend: N sentences of a batch, S source positions, K beams, B = N K, H hidden width, L decoder
# layers, V vocabulary.
Tensors: TypeAlias = tuple[torch.Tensor, ...]

EVALUATION: Final = (
    5,
    0.6,
    0.1,
)  # mlcommons/training, rnn_translator, train.py: beam size, length penalty, coverage penalty
SERVING: Final = (10, 1.0, 0.0)  # mlcommons/inference v0.5, wmt16_gnmt_4_layer.json: the same three


def beam(rule: tuple[int, float, float], max_length: int) -> Beam:
    """Create a rule's beam for answers of at most `max_length` tokens."""
    size, length_penalty, coverage_penalty = rule
    return Beam(
        size=size,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        max_length=max_length,
        start=START,
        end=END,
        filler=PAD,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Translator:
    """The two networks of one worker."""

    read: Callable[..., Tensors]
    write: Callable[..., Tensors]
    layers: int
    device: torch.device

    @classmethod
    def of(cls, network: GNMT, device: torch.device) -> "Translator":
        """Build a translator that runs the network itself, without an engine."""
        return cls(
            read=Reader(network),
            write=Writer(network),
            layers=len(network.decoder.layers),
            device=device,
        )

    def translate(self, sources: Sequence[Tokens], beam: Beam) -> list[list[int]]:
        """Translate a batch of sentences to token ids, each up to its end mark, exclusive."""
        source_NS, length_N = (tensor.to(self.device) for tensor in side_by_side(sources))
        memory_NSH, key_NSH = (found.contiguous() for found in self.read(source_NS, length_N))
        known_NS = source_NS != PAD

        def decode(
            token_NK: torch.Tensor, state: State
        ) -> tuple[torch.Tensor, torch.Tensor, State]:
            logit_NKV, share_NKS, *more = self.write(
                token_NK, *state, memory_NSH, key_NSH, known_NS
            )
            return logit_NKV, share_NKS, tuple(more)

        zero_NLH = memory_NSH.new_zeros(len(sources), self.layers, memory_NSH.shape[-1])
        return words(search(decode, (zero_NLH, zero_NLH), known_NS, beam), END)
