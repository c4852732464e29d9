"""The batched search, held against a plain one: one sentence, one hypothesis after the other, lists
and tuples.
"""

import math

import numpy as np
import pytest

from workloads.transformer.translation.beam_search import (
    Floats,
    Ints,
    TranslationBeams,
    compute_length_penalty,
    search_best_translations,
)

V, END, ALPHA = 7, 1, 0.6


class Table:
    """A language model that is a table: log-probabilities by sentence and the last two tokens."""

    def __init__(self, seed: int, sentences: int, end: float = 0.0) -> None:
        logit_BVVV = np.random.default_rng(seed).normal(0, 1.5, (sentences, V, V, V))
        logit_BVVV[..., END] += end
        self.logp_BVVV = (logit_BVVV - np.log(np.exp(logit_BVVV).sum(-1, keepdims=True))).astype(
            np.float32
        )

    def after(self, sentence: int, tokens: tuple[int, ...]) -> Floats:
        before = (0, 0, *tokens)[-2:]
        found: Floats = self.logp_BVVV[sentence, before[0], before[1]]
        return found


class Batched:
    """The table as a step of the batched search; it follows parents, as a cache would."""

    def __init__(self, table: Table, rows: list[int], continuations: int) -> None:
        self.table, self.rows, self.continuations = table, rows, continuations
        self.before_BK: Ints | None = None
        self.steps = 0

    def __call__(self, beams: TranslationBeams) -> tuple[Floats, Ints]:
        self.steps += 1
        last_BK = (
            np.zeros_like(beams.token_BK)
            if self.before_BK is None
            else np.take_along_axis(self.before_BK, beams.parent_BK, axis=1)
        )
        logp_BKV = self.table.logp_BVVV[np.array(self.rows)[:, None], last_BK, beams.token_BK]
        self.before_BK = beams.token_BK
        token_BKC = np.argsort(-logp_BKV, axis=2, kind="stable")[:, :, : self.continuations]
        return np.take_along_axis(logp_BKV, token_BKC, axis=2), token_BKC


def plain(table: Table, sentence: int, limit: int, size: int) -> list[int]:
    """The reference's search for one sentence, run to the limit without stopping early."""
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    ended: list[tuple[float, tuple[int, ...]]] = []
    for length in range(1, limit + 1):
        more = [
            (total + float(logp), (*tokens, token))
            for total, tokens in running
            for token, logp in enumerate(table.after(sentence, tokens))
        ]
        best = sorted(more, key=lambda one: -one[0])[: 2 * size]
        running = [one for one in best if one[1][-1] != END][:size]
        ended += [
            (total / ((5 + length) / 6) ** ALPHA, tokens[:-1])
            for total, tokens in best
            if tokens[-1] == END
        ]
        ended = sorted(ended, key=lambda one: -one[0])[:size]
    return list(ended[0][1] if ended else running[0][1])


def batched(
    table: Table, limits: list[int], size: int, rows: list[int] | None = None
) -> list[list[int]]:
    rows = rows or list(range(len(limits)))
    beams = TranslationBeams(np.array(limits), size, start=0, end=END, alpha=ALPHA)
    return search_best_translations(beams, Batched(table, rows, min(2 * size, V)))


LIMITS = [9, 3, 12, 7, 1, 5]


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("end", [-3.0, 0.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_equal_to_a_plain_search(seed: int, end: float, size: int) -> None:
    """Early stops, limits that differ within the batch, sentences that never end: all as one by
    one, to the end.
    """
    table = Table(seed, len(LIMITS), end)
    assert batched(table, LIMITS, size) == [
        plain(table, sentence, limit, size) for sentence, limit in enumerate(LIMITS)
    ]


def test_a_sentence_s_answer_does_not_depend_on_its_neighbours() -> None:
    """A performance run's batches are other ones than the accuracy run's, and its answers must be
    the same.
    """
    table = Table(5, len(LIMITS))
    together = batched(table, LIMITS, 4)
    assert [
        batched(table, [limit], 4, rows=[row])[0] for row, limit in enumerate(LIMITS)
    ] == together
    assert batched(table, LIMITS[::-1], 4, rows=list(range(len(LIMITS)))[::-1]) == together[::-1]


def test_the_search_ends_when_nothing_better_can_come() -> None:
    """Else every batch would cost as many steps as its limit."""
    step = Batched(Table(1, 2, end=9.0), [0, 1], V)
    assert search_best_translations(
        TranslationBeams(np.array([50, 50]), 4, start=0, end=END, alpha=ALPHA), step
    ) == [[], []]
    assert step.steps < 5


def test_a_search_without_end_stops_at_each_limit() -> None:
    """A model that knows no end gives as many tokens as it may."""
    assert [len(tokens) for tokens in batched(Table(1, 4, end=-99.0), [4, 2, 6, 1], 3)] == [
        4,
        2,
        6,
        1,
    ]


def test_parents_are_followed() -> None:
    """The bookkeeping that a cache hangs on: which hypothesis was continued."""
    beams = TranslationBeams(np.array([5]), 2, start=0, end=END, alpha=ALPHA)
    beams.extend_hypotheses(
        np.log(np.array([[[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]], np.float32)),
        np.array([[[2, 3, 4]] * 2]),
    )
    assert (beams.token_BK.tolist(), beams.parent_BK.tolist()) == ([[2, 3]], [[0, 0]])
    beams.extend_hypotheses(
        np.log(np.array([[[0.1, 0.1, 0.1], [0.9, 0.05, 0.05]]], np.float32)),
        np.array([[[2, 3, 4]] * 2]),
    )
    assert (beams.token_BK.tolist(), beams.parent_BK.tolist()) == ([[2, 2]], [[1, 0]])


@pytest.mark.parametrize(
    ("length", "alpha", "penalty"),
    [(1, 0.6, 1.0), (7, 1.0, 2.0), (25, 0.5, math.sqrt(5)), (9, 0.0, 1.0)],
)
def test_the_length_penalty_is_the_paper_s(length: int, alpha: float, penalty: float) -> None:
    """((5 + length) / 6)^alpha, the end mark counted."""
    assert float(compute_length_penalty(length, alpha)) == pytest.approx(penalty)
