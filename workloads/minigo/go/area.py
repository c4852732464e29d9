"""An opponent without a network: priors are equal, and the value of a position is the number of
points nearer to one colour's stones than to the other's.

It is the same on every machine and needs no file: the fixed opponent in `smoke` and `quick`.
"""

from typing import Final

import numpy as np

from workloads.minigo.go.board import BLACK, WHITE, Array, BoardGeometry, Boards
from workloads.minigo.go.search import Evaluator

# Legend: N positions, P points, A actions, C cells, K 4 neighbours.
NO_STONE_DISTANCE: Final = 99
LAST_RESORT_PASS_PRIOR: Final = 1e-4
"""Prior of the pass, relative to 1 for each point: it is played only if no other move is
possible.
"""
MIN_PASS_PRIOR: Final = 1e-8
"""The smallest prior of a pass, so that it remains possible if superko forbids all other moves."""


class AreaEvaluator:
    """Implements Evaluator."""

    def __init__(self, shape: BoardGeometry, komi: float) -> None:
        self._shape, self._komi = shape, komi

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Evaluate positions, without random draws."""
        shape = self._shape
        stones_NP = boards.stones_NC[:, shape.cell_P]
        black_NP, white_NP = (
            compute_nearest_distances(shape, stones_NP == colour) for colour in (BLACK, WHITE)
        )
        lead_N = np.sign(white_NP - black_NP).sum(axis=1) - self._komi
        prior_NA = np.full((len(boards), shape.actions), LAST_RESORT_PASS_PRIOR)
        prior_NA[:, :-1] = ~find_simple_eyes(shape, boards)
        return prior_NA, np.tanh(lead_N / shape.size) * boards.mover_N


class PassLastEvaluator:
    """Implements Evaluator with another evaluator's values and priors, except that simple eyes are
    not filled and the pass comes last.

    Without it, a network that is behind learns on small boards to pass: two passes end a game at
    once, it learns nothing more, and its play collapses.
    """

    def __init__(self, shape: BoardGeometry, evaluate: Evaluator) -> None:
        self._shape, self._evaluate = shape, evaluate

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Evaluate positions."""
        prior_NA, value_N = self._evaluate(boards, past_NTP, rng)
        points_NP = prior_NA[:, :-1] * ~find_simple_eyes(self._shape, boards)
        return (
            np.concatenate(
                [points_NP, np.maximum(prior_NA[:, -1:] * LAST_RESORT_PASS_PRIOR, MIN_PASS_PRIOR)],
                axis=1,
            ),
            value_N,
        )


def compute_nearest_distances(shape: BoardGeometry, stones_NP: Array) -> Array:
    """Return the distance in steps from each point to the nearest of some stones."""
    found: Array = np.where(
        stones_NP[:, :, None], shape.distance_PP, np.int8(NO_STONE_DISTANCE)
    ).min(axis=1)
    return found


def find_simple_eyes(shape: BoardGeometry, boards: Boards) -> Array:
    """Return which points are simple eyes, which are not filled: points with the mover's stones, or
    the border, on all sides.
    """
    near_NPK = (
        boards.stones_NC[:, shape.cell_P[:, None] + shape.near_K] * boards.mover_N[:, None, None]
    )
    found: Array = ((near_NPK == 1) | (abs(near_NPK) > 1)).all(axis=2)
    return found
