"""Beam search over a batch of sentences at once; Wu et al. 2016, arXiv:1609.08144, section 7.

A hypothesis of T tokens (including its end mark) with log-probability p and attention a_ts is
ranked by

    p / ((5 + T) / 6)^length_penalty + coverage_penalty * sum over s of log(min(sum over t of a_ts,
    1))

A finished hypothesis keeps its rank and its place in the beam until better ones displace it. A
sentence is done when no open hypothesis could still beat the best finished one, so the answer
equals that of an exhaustive search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import torch

# Legend: N sentences of a batch, K beams, V vocabulary, S source positions, T target positions, B =
# N K.
DecoderState: TypeAlias = tuple[torch.Tensor, ...]
"""The state a decoder carries between steps: tensors whose first axis is B."""

LENGTH_PENALTY_OFFSET: Final = 5  # Wu et al. 2016, equation 14
GPU_END_CHECK_INTERVAL: Final = 4
"""House rule: positions between two looks for the end on a GPU, for each of which the host waits. A
CPU looks at each position: there a look is free, and a position is not.
"""
MIN_ATTENTION: Final = 1e-30  # keeps the logarithm finite where a softmax has underflowed
IMPOSSIBLE_LOG_PROBABILITY: Final = float("-inf")


class BeamDecoderStep(Protocol):
    """One step of a decoder."""

    def __call__(
        self, token_NK: torch.Tensor, state: DecoderState, /
    ) -> tuple[torch.Tensor, torch.Tensor | None, DecoderState]:
        """Return the logits N K V of the next token, the attention N K S (or None) and the next
        state.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamParameters:
    """Search parameters."""

    size: int
    length_penalty: float
    coverage_penalty: float
    max_length: int
    """Tokens of an answer, including its end mark."""
    start: int
    end: int
    filler: int


class BeamHypotheses:
    """The beams of all sentences: the state of each hypothesis."""

    def __init__(self, beam: BeamParameters, known_NS: torch.Tensor) -> None:
        count, device = len(known_NS), known_NS.device
        self.beam = beam
        self.pad_NKS = ~known_NS[:, None, :]
        self.rows_N1 = torch.arange(count, device=device)[:, None] * beam.size
        self.logp_NK = torch.full((count, beam.size), IMPOSSIBLE_LOG_PROBABILITY, device=device)
        self.logp_NK[:, 0] = 0.0  # all start identical: one of them is enough
        self.rank_NK = self.logp_NK.clone()
        self.done_NK = torch.zeros(count, beam.size, dtype=torch.bool, device=device)
        self.seen_NKS = torch.zeros(count, beam.size, known_NS.shape[1], device=device)
        self.token_NKT = torch.full(
            (count, beam.size, beam.max_length), beam.filler, dtype=torch.int64, device=device
        )
        self.stay_K = torch.where(
            torch.arange(beam.size, device=device) == 0, 0.0, IMPOSSIBLE_LOG_PROBABILITY
        )
        self.word_NK = torch.full((count, beam.size), beam.start, device=device)

    def extend_by_token(
        self, length: int, logit_NKV: torch.Tensor, attention_NKS: torch.Tensor | None
    ) -> torch.Tensor:
        """Extend to the best continuations of `length` tokens; return the rows B that they
        continue.
        """
        beam = self.beam
        more_NKK, word_NKK = self.select_continuations(logit_NKV.float())
        logp_NKK = self.logp_NK[..., None] + more_NKK
        rank_NKK = (
            logp_NKK / compute_length_divisor(length, beam.length_penalty)
            + self.update_coverage_penalty(attention_NKS)[..., None]
        )
        rank_NKK = torch.where(
            self.done_NK[..., None], self.rank_NK[..., None] + more_NKK, rank_NKK
        )
        self.rank_NK, place_NK = rank_NKK.flatten(1).topk(beam.size)
        self.logp_NK = logp_NKK.flatten(1).gather(1, place_NK)
        self.word_NK = word_NKK.flatten(1).gather(1, place_NK)
        parent_NK = place_NK // beam.size
        row_B = (self.rows_N1 + parent_NK).flatten()
        self.done_NK = self.done_NK.gather(1, parent_NK)
        self.token_NKT, self.seen_NKS = (
            gather_beam_rows(table, row_B) for table in (self.token_NKT, self.seen_NKS)
        )
        self.token_NKT[..., length - 1] = torch.where(self.done_NK, beam.filler, self.word_NK)
        self.done_NK = self.done_NK | (self.word_NK == beam.end)
        return row_B

    def select_continuations(self, logit_NKV: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the best K words after each hypothesis and their log-probabilities; a finished one
        stays unchanged.
        """
        top_NKK, word_NKK = logit_NKV.topk(self.beam.size)
        more_NKK = top_NKK - logit_NKV.logsumexp(-1, keepdim=True)
        done_NK1 = self.done_NK[..., None]
        return torch.where(done_NK1, self.stay_K, more_NKK), torch.where(
            done_NK1, self.beam.end, word_NKK
        )

    def update_coverage_penalty(self, attention_NKS: torch.Tensor | None) -> torch.Tensor:
        """Accumulate the attention of open hypotheses, and return the coverage penalty N K."""
        if attention_NKS is None or self.beam.coverage_penalty == 0.0:
            return torch.zeros_like(self.logp_NK)
        self.seen_NKS = self.seen_NKS + attention_NKS
        share_NKS = self.seen_NKS.clamp(MIN_ATTENTION, 1.0).masked_fill(self.pad_NKS, 1.0)
        return self.beam.coverage_penalty * share_NKS.log().sum(-1)

    def is_search_finished(self) -> bool:
        """Return whether no open hypothesis of any sentence can still beat its best finished one,
        whatever its length.
        """
        best_N = self.rank_NK.masked_fill(~self.done_NK, IMPOSSIBLE_LOG_PROBABILITY).amax(1)
        hope_NK = self.logp_NK / compute_length_divisor(
            self.beam.max_length, self.beam.length_penalty
        )
        hope_N = hope_NK.masked_fill(self.done_NK, IMPOSSIBLE_LOG_PROBABILITY).amax(1)
        return bool((best_N >= hope_N).all())


def compute_length_divisor(length: int, penalty: float) -> float:
    """Compute the divisor of a log-probability; Wu et al. 2016, equation 14."""
    return float(((LENGTH_PENALTY_OFFSET + length) / (LENGTH_PENALTY_OFFSET + 1)) ** penalty)


def gather_beam_rows(table: torch.Tensor, row_B: torch.Tensor) -> torch.Tensor:
    """Gather rows of a table N K ... by their index in B."""
    return table.flatten(0, 1).index_select(0, row_B).view_as(table)


def search_best_answers(
    decode: BeamDecoderStep,
    state: DecoderState,
    known_NS: torch.Tensor,
    beam: BeamParameters,
    end_check_interval: int | None = None,
) -> torch.Tensor:
    """Return the best answer to each sentence, N T, padded after its end.

    `state`: the decoder's initial state, with first axis N; `known_NS`: true where the source has a
    token; `end_check_interval`: positions between two looks for the end, by default as the device
    is fastest. The answers are the same for each interval: a finished hypothesis keeps its rank,
    which no open one can still beat.
    """
    interval = end_check_interval or (GPU_END_CHECK_INTERVAL if known_NS.is_cuda else 1)
    hypotheses = BeamHypotheses(beam, known_NS)
    state = tuple(part.repeat_interleave(beam.size, 0) for part in state)
    for length in range(1, beam.max_length + 1):
        logit_NKV, attention_NKS, state = decode(hypotheses.word_NK, state)
        row_B = hypotheses.extend_by_token(length, logit_NKV, attention_NKS)
        if length % interval == 0 and hypotheses.is_search_finished():
            break
        state = tuple(part.index_select(0, row_B) for part in state)
    best_N1T = hypotheses.rank_NK.argmax(1)[:, None, None].expand(-1, 1, beam.max_length)
    return hypotheses.token_NKT.gather(1, best_N1T)[:, 0]


def truncate_answers_at_end(answer_NT: torch.Tensor, end: int) -> list[list[int]]:
    """Return the tokens of each answer up to its end mark, exclusive."""
    answers: Sequence[list[int]] = answer_NT.tolist()
    return [answer[: answer.index(end)] if end in answer else answer for answer in answers]
