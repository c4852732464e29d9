"""How games end, and who has won them: two passes or a limit of moves, then the area.

Legend: N games.
"""

from dataclasses import dataclass

import numpy as np

from workloads.minigo.go.board import Array, Boards, Geometry, area


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How games end."""

    komi: float
    limit: int
    """Moves after which a game is counted as it stands."""


def outcome(shape: Geometry, rules: Rules, boards: Boards) -> Array:
    """Say who has won positions that are counted now: 1 black, -1 white, 0 nobody."""
    found: Array = np.sign(area(shape, boards) - rules.komi)
    return found


def over(rules: Rules, boards: Boards) -> Array:
    """Tell which games have ended."""
    found: Array = (boards.passes_N >= 2) | (boards.ply_N >= rules.limit)
    return found
