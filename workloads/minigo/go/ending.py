"""Decides when games end and who has won: two passes or a move limit end a game, and area decides.

Legend: N games.
"""

from dataclasses import dataclass

import numpy as np

from workloads.minigo.go.board import Array, BoardGeometry, Boards, count_black_area_lead


@dataclass(frozen=True, slots=True, kw_only=True)
class GameRules:
    """How games end."""

    komi: float
    limit: int
    """Number of moves after which a game is scored as it is."""


def compute_winners(shape: BoardGeometry, rules: GameRules, boards: Boards) -> Array:
    """Return the winners of positions by area: 1 black, -1 white, 0 for a draw."""
    found: Array = np.sign(count_black_area_lead(shape, boards) - rules.komi)
    return found


def find_ended_games(rules: GameRules, boards: Boards) -> Array:
    """Return which games have ended."""
    found: Array = (boards.passes_N >= 2) | (boards.ply_N >= rules.limit)
    return found
