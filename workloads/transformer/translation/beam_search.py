"""Beam search over a batch of sentences in numpy: a network on any device supplies the best
continuations of each hypothesis.

This is tensor2tensor's search: finished hypotheses move to a list of their own, scored by
log-probability / ((5 + length) / 6)^alpha (Wu et al. 2016, arXiv:1609.08144, section 7), and a
sentence is done when no running
hypothesis can still win. A sentence's result depends on that sentence alone, not on the rest of its
batch.
Sources: mlcommons/training, translation/tensorflow/transformer/model/beam_search.py.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

# Legend: B sentences, K hypotheses of a sentence, C continuations of a hypothesis, E = 2 K
# candidates, L positions.
Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]

IMPOSSIBLE_SCORE: Final = np.float32(-1e9)
"""A score below all possible ones; finite, since 0 times infinity is NaN. beam_search.py, INF."""


def compute_length_penalty(length: npt.ArrayLike, alpha: float) -> Floats:
    """Return ((5 + length) / 6)^alpha, the divisor of log-probabilities."""
    return np.asarray(((5.0 + np.asarray(length, np.float64)) / 6.0) ** alpha, np.float32)


class TranslationBeams:
    """The growing hypotheses of a batch of sentences."""

    def __init__(self, limit_B: Ints, size: int, start: int, end: int, alpha: float) -> None:
        count, longest = len(limit_B), int(limit_B.max())
        self.limit_B, self.size, self.end, self.alpha = limit_B, size, end, alpha
        self.length = 0
        self.token_BK = np.full((count, size), start, np.int64)
        """The last token of each running hypothesis."""
        self.parent_BK = np.zeros((count, size), np.int64)
        """The hypothesis that each one continues."""
        self._running_BK = np.full((count, size), IMPOSSIBLE_SCORE, np.float32)
        self._running_BK[:, 0] = 0.0
        self._history_BKL = np.zeros((count, size, longest), np.int64)
        self._ended_BK = np.full((count, size), IMPOSSIBLE_SCORE, np.float32)
        self._ended_BKL = np.zeros((count, size, longest), np.int64)
        self._highest_B = compute_length_penalty(limit_B, alpha)

    @property
    def done_B(self) -> npt.NDArray[np.bool_]:
        """Return the sentences whose best hypothesis is final: at the limit, or all finished ones
        are better than any running one can become.
        """
        ended_BK = self._ended_BK > IMPOSSIBLE_SCORE
        lowest_B = np.where(ended_BK, self._ended_BK, np.float32(0)).min(axis=1)
        settled_B: npt.NDArray[np.bool_] = ended_BK.any(axis=1) & (
            lowest_B > self._running_BK[:, 0] / self._highest_B
        )
        return settled_B | (self.length >= self.limit_B)

    def extend_hypotheses(self, score_BKC: Floats, token_BKC: Ints) -> None:
        """Extend hypotheses by their best continuations' log-probabilities, of which there must be
        at least 2 K, or all.
        """
        self.length += 1
        continuations = token_BKC.shape[2]
        total_BX = (self._running_BK[:, :, None] + score_BKC).reshape(len(self.limit_B), -1)
        best_BE = np.argsort(-total_BX, axis=1, kind="stable")[:, : 2 * self.size]
        total_BE = np.take_along_axis(total_BX, best_BE, axis=1)
        token_BE = np.take_along_axis(token_BKC.reshape(total_BX.shape), best_BE, axis=1)
        parent_BE = best_BE // continuations
        history_BEL = np.take_along_axis(self._history_BKL, parent_BE[:, :, None], axis=1)
        np.put_along_axis(
            history_BEL,
            np.full((*token_BE.shape, 1), self._last_position),
            token_BE[:, :, None],
            axis=2,
        )
        ends_BE = token_BE == self.end
        self._select_running_hypotheses(
            np.where(ends_BE, IMPOSSIBLE_SCORE, total_BE), token_BE, parent_BE, history_BEL
        )
        self._rank_ended_hypotheses(np.where(ends_BE, total_BE, IMPOSSIBLE_SCORE), history_BEL)

    @property
    def _last_position(self) -> int:
        return self.length - 1

    def _select_running_hypotheses(
        self, total_BE: Floats, token_BE: Ints, parent_BE: Ints, history_BEL: Ints
    ) -> None:
        best_BK = np.argsort(-total_BE, axis=1, kind="stable")[:, : self.size]
        self._running_BK = np.take_along_axis(total_BE, best_BK, axis=1)
        self.token_BK = np.take_along_axis(token_BE, best_BK, axis=1)
        self.parent_BK = np.take_along_axis(parent_BE, best_BK, axis=1)
        self._history_BKL = np.take_along_axis(history_BEL, best_BK[:, :, None], axis=1)

    def _rank_ended_hypotheses(self, total_BE: Floats, history_BEL: Ints) -> None:
        """Rank newly finished hypotheses among earlier ones; a sentence at its limit without any
        gets its best running hypothesis.
        """
        open_B1 = (self.length <= self.limit_B)[:, None]
        score_BE = np.where(
            open_B1 & (total_BE > IMPOSSIBLE_SCORE),
            total_BE / compute_length_penalty(self.length, self.alpha),
            IMPOSSIBLE_SCORE,
        )
        score_BX = np.concatenate([self._ended_BK, score_BE], axis=1)
        best_BK = np.argsort(-score_BX, axis=1, kind="stable")[:, : self.size]
        self._ended_BK = np.take_along_axis(score_BX, best_BK, axis=1)
        history_BXL = np.concatenate([self._ended_BKL, history_BEL], axis=1)
        self._ended_BKL = np.take_along_axis(history_BXL, best_BK[:, :, None], axis=1)
        cut_B = (self.length == self.limit_B) & (self._ended_BK[:, 0] <= IMPOSSIBLE_SCORE)
        self._ended_BKL[cut_B, 0] = self._history_BKL[cut_B, 0]

    def list_best_translations(self) -> list[list[int]]:
        """Return each sentence's best hypothesis, up to its end mark, exclusive."""
        answers = []
        for tokens, limit in zip(
            self._ended_BKL[:, 0].tolist(), self.limit_B.tolist(), strict=True
        ):
            ended = tokens.index(self.end) if self.end in tokens[:limit] else limit
            answers.append(tokens[:ended])
        return answers


ContinuationStep: TypeAlias = Callable[[TranslationBeams], tuple[Floats, Ints]]
"""Maps the current hypotheses to the log-probabilities and tokens of their best continuations."""


def search_best_translations(beams: TranslationBeams, step: ContinuationStep) -> list[list[int]]:
    """Extend hypotheses until every sentence is done, and return the best of each."""
    while not beams.done_B.all():
        beams.extend_hypotheses(*step(beams))
    return beams.list_best_translations()
