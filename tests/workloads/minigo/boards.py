"""Small boards, drawn as text, and settings of small runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from workloads.minigo.go.board import (
    BLACK,
    WHITE,
    BoardGeometry,
    Boards,
    build_board_geometry,
    play_actions,
)
from workloads.minigo.positions.moves import parse_go_move

SMALL: Mapping[str, Any] = {
    "min_selfplay_games_per_generation": 8,
    "selfplay.games_per_group": 4,
    "num_readouts": 4,
    "game.move_limit": 12,
    "eval_games": 8,
    "eval.games_per_group": 4,
    "eval.readouts": 4,
    "eval.opponent_readouts": 4,
    "training.examples_per_generation": 40,
    "train_batch_size": 16,
    "model.filters": 4,
    "model.blocks": 1,
    "model.hidden": 8,
    "data.workers": 0,
}
"""What makes a run small."""
MARKS: Mapping[str, int] = {"X": BLACK, "O": WHITE}


def set_up(*rows: str, mover: int = BLACK) -> tuple[BoardGeometry, Boards]:
    """Put stones on a board one by one: X black, O white; what they would capture on the way must
    not be on it.
    """
    shape = build_board_geometry(len(rows))
    boards = Boards.build_empty(shape.size, 1)
    for point, mark in enumerate("".join(rows)):
        if mark in MARKS:
            boards.mover_N[:] = MARKS[mark]
            boards = play_actions(shape, boards, np.array([point]))
    boards.mover_N[:] = mover
    boards.ply_N[:] = 0
    return shape, boards


def drawn(shape: BoardGeometry, boards: Boards) -> list[str]:
    """Draw a board."""
    marks = {BLACK: "X", WHITE: "O", 0: "."}
    return [
        "".join(marks[int(stone)] for stone in row)
        for row in boards.stones_NC[0, shape.cell_P].reshape(shape.size, -1)
    ]


def at(shape: BoardGeometry, text: str) -> int:
    """Read C3."""
    found = parse_go_move(text, shape.size)
    assert found is not None
    return found
