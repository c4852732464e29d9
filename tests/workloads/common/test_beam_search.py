"""Batched beam search, held against a plain one: one sentence, one hypothesis, one word after the
other.
"""

import math
from dataclasses import dataclass, replace

import pytest
import torch

from workloads.common.text.beam_search import (
    GPU_END_CHECK_INTERVAL,
    BeamParameters,
    DecoderState,
    search_best_answers,
    truncate_answers_at_end,
)

VOCABULARY, HIDDEN, START, END, FILLER = 11, 6, 2, 3, 0
BEAM = BeamParameters(
    size=4,
    length_penalty=0.6,
    coverage_penalty=0.1,
    max_length=7,
    start=START,
    end=END,
    filler=FILLER,
)
LENGTHS = (5, 2, 7, 1)
KNOWN_NS = torch.arange(7)[None, :] < torch.tensor(LENGTHS)[:, None]


class Toy:
    """A tiny random decoder with attention over random memories; not trained, so that many
    hypotheses are close.
    """

    def __init__(self, seed: int, end_bias: float) -> None:
        made = torch.Generator().manual_seed(seed)
        self.embedding_VH, self.out_VH, self.turn_HH, self.memory_NSH = (
            torch.randn(shape, generator=made)
            for shape in (
                (VOCABULARY, HIDDEN),
                (VOCABULARY, HIDDEN),
                (HIDDEN, HIDDEN),
                (len(LENGTHS), max(LENGTHS), HIDDEN),
            )
        )
        self.bias_V = torch.zeros(VOCABULARY)
        self.bias_V[END] = end_bias

    def __call__(
        self, token_NK: torch.Tensor, state: DecoderState
    ) -> tuple[torch.Tensor, torch.Tensor, DecoderState]:
        sentences, beams = token_NK.shape
        hidden_NKH = torch.tanh(
            state[0].view(sentences, beams, HIDDEN) @ self.turn_HH + self.embedding_VH[token_NK]
        )
        score_NKS = (hidden_NKH @ self.memory_NSH.transpose(1, 2)).masked_fill(
            ~KNOWN_NS[:, None], -1e9
        )
        attention_NKS = score_NKS.softmax(-1)
        hidden_NKH = hidden_NKH + attention_NKS @ self.memory_NSH
        return hidden_NKH @ self.out_VH.T + self.bias_V, attention_NKS, (hidden_NKH.flatten(0, 1),)


@dataclass
class Hypothesis:
    """One beginning of an answer, and all that is known of it."""

    tokens: list[int]
    logp: float
    seen: list[float]
    state: torch.Tensor
    done: bool = False

    def rank(self, beam: BeamParameters) -> float:
        coverage = sum(math.log(min(max(share, 1e-30), 1.0)) for share in self.seen)
        return (
            self.logp / ((5 + len(self.tokens)) / 6) ** beam.length_penalty
            + beam.coverage_penalty * coverage
        )


def extended(toy: Toy, sentence: int, hypothesis: Hypothesis) -> list[Hypothesis]:
    """All continuations of one hypothesis."""
    if hypothesis.done:
        return [hypothesis]
    token = torch.full((len(LENGTHS), 1), hypothesis.tokens[-1] if hypothesis.tokens else START)
    logit_NKV, attention_NKS, (state_NH,) = toy(
        token, (hypothesis.state.expand(len(LENGTHS), HIDDEN),)
    )
    logps = logit_NKV[sentence, 0].log_softmax(-1).tolist()
    attention = attention_NKS[sentence, 0, : LENGTHS[sentence]].tolist()
    seen = [old + new for old, new in zip(hypothesis.seen, attention, strict=True)]
    state = state_NH[sentence]
    return [
        Hypothesis([*hypothesis.tokens, word], hypothesis.logp + logp, seen, state, word == END)
        for word, logp in enumerate(logps)
    ]


def plain(toy: Toy, sentence: int, beam: BeamParameters) -> list[int]:
    """Search one sentence to the end, by the words of the module's first lines."""
    beams = [Hypothesis([], 0.0, [0.0] * LENGTHS[sentence], torch.zeros(HIDDEN))]
    for _ in range(beam.max_length):
        found = [more for hypothesis in beams for more in extended(toy, sentence, hypothesis)]
        beams = sorted(found, key=lambda hypothesis: hypothesis.rank(beam), reverse=True)[
            : beam.size
        ]
    best = beams[0].tokens
    return best[:-1] if best[-1] == END else best


def batched(toy: Toy, beam: BeamParameters, interval: int | None = None) -> list[list[int]]:
    return truncate_answers_at_end(
        search_best_answers(toy, (torch.zeros(len(LENGTHS), HIDDEN),), KNOWN_NS, beam, interval),
        END,
    )


@pytest.mark.parametrize("interval", [None, GPU_END_CHECK_INTERVAL, 99])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "beam",
    [
        BEAM,
        replace(BEAM, size=1),
        replace(BEAM, size=7, length_penalty=1.0, coverage_penalty=0.0),
        replace(BEAM, length_penalty=0.0, coverage_penalty=0.4),
    ],
    ids=["training", "greedy", "inference", "coverage"],
)
def test_equal_to_a_plain_search(seed: int, beam: BeamParameters, interval: int | None) -> None:
    """Penalties, finished hypotheses that stay, early ends, however often the end is looked for:
    all as in the search without a batch.
    """
    toy = Toy(seed, end_bias=1.5)
    assert batched(toy, beam, interval) == [
        plain(toy, sentence, beam) for sentence in range(len(LENGTHS))
    ]


def test_answers_that_never_end_are_cut() -> None:
    """A model that knows no end must not run for ever."""
    answers = batched(Toy(1, end_bias=-99.0), BEAM)
    assert [len(answer) for answer in answers] == [BEAM.max_length] * len(LENGTHS)


def test_an_answer_may_be_empty() -> None:
    assert batched(Toy(1, end_bias=99.0), BEAM) == [[]] * len(LENGTHS)


@pytest.mark.parametrize(("interval", "expected"), [(None, 1), (GPU_END_CHECK_INTERVAL, 4)])
def test_the_search_ends_when_nothing_better_can_come(interval: int | None, expected: int) -> None:
    """Sentences that are done must not pay for the longest answer that is allowed; a CPU looks at
    each position.
    """
    steps = 0
    toy = Toy(1, end_bias=99.0)

    def counting(
        token_NK: torch.Tensor, state: DecoderState
    ) -> tuple[torch.Tensor, torch.Tensor, DecoderState]:
        nonlocal steps
        steps += 1
        return toy(token_NK, state)

    search_best_answers(counting, (torch.zeros(len(LENGTHS), HIDDEN),), KNOWN_NS, BEAM, interval)
    assert steps == expected


def test_a_wider_beam_finds_what_a_narrow_one_misses() -> None:
    """A beam that is always one wide would pass for a search."""
    changed = [
        batched(Toy(seed, 0.0), replace(BEAM, size=1)) != batched(Toy(seed, 0.0), BEAM)
        for seed in range(4)
    ]
    assert any(changed)


def test_decoders_without_attention_have_no_coverage() -> None:
    toy = Toy(2, 1.5)

    def blind(
        token_NK: torch.Tensor, state: DecoderState
    ) -> tuple[torch.Tensor, None, DecoderState]:
        logit_NKV, _, state = toy(token_NK, state)
        return logit_NKV, None, state

    uncovered = replace(BEAM, coverage_penalty=0.0)
    answers = search_best_answers(blind, (torch.zeros(len(LENGTHS), HIDDEN),), KNOWN_NS, uncovered)
    assert truncate_answers_at_end(answers, END) == batched(toy, uncovered)
