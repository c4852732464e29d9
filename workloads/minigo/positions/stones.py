"""The stones on the board after some moves, for images."""

from collections.abc import Iterator, Sequence

import numpy as np

from workloads.minigo.go.board import Boards, build_board_geometry, play_actions


def compute_final_stones(moves: Sequence[int], size: int) -> list[int]:
    """Play moves from the empty board; return 1 black, -1 white, 0 empty, row by row."""
    return list(iterate_stones_after_moves(moves, size))[-1] if moves else [0] * size**2


def iterate_stones_after_moves(moves: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield the stones after each move."""
    shape, boards = build_board_geometry(size), Boards.build_empty(size, 1)
    for move in moves:
        boards = play_actions(shape, boards, np.array([move]))
        yield [int(stone) for stone in boards.stones_NC[0, shape.cell_P]]
