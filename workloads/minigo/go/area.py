"""An opponent without a network: priors are equal, and the value of a position is how many points
lie nearer to whose stones.

The same on every machine, with no file to ship: the fixed opponent of `smoke` and `quick`.
"""

from typing import Final

import numpy as np

from workloads.minigo.go.board import BLACK, WHITE, Array, BoardGeometry, Boards
from workloads.minigo.go.search import Evaluator

# Legend: N positions, P points, A actions, C cells, K 4 neighbours.
NO_STONE_DISTANCE: Final = 99
LAST_RESORT_PASS_PRIOR: Final = 1e-4
"""Prior of the pass beside 1 for each point: it is played where nothing else is."""
MIN_PASS_PRIOR: Final = 1e-8
"""The smallest prior of a pass: it stays the move where superko takes all others."""


class AreaEvaluator:
    """Implements Evaluator."""

    def __init__(self, shape: BoardGeometry, komi: float) -> None:
        self._shape, self._komi = shape, komi

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Judge positions; nothing is drawn."""
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
    """Implements Evaluator: another one's values and priors, but for simple eyes, which are not
    filled, and the pass, which comes last.

    Without it, small boards teach a network that trails to pass: two passes end a game at once, it
    learns nothing more, and play collapses.
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
    """Count the steps from each point to the nearest of some stones."""
    found: Array = np.where(
        stones_NP[:, :, None], shape.distance_PP, np.int8(NO_STONE_DISTANCE)
    ).min(axis=1)
    return found


def find_simple_eyes(shape: BoardGeometry, boards: Boards) -> Array:
    """Return which points have stones of who moves, or the border, on all sides: simple eyes, which
    are not filled.
    """
    near_NPK = (
        boards.stones_NC[:, shape.cell_P[:, None] + shape.near_K] * boards.mover_N[:, None, None]
    )
    found: Array = ((near_NPK == 1) | (abs(near_NPK) > 1)).all(axis=2)
    return found
