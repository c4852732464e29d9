"""Moves as people write them, and whether a game has only legal ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from suite.errors import RequestError
from workloads.minigo.go.board import Boards, geometry, legal, legal_with_superko, play

COLUMNS: Final = "ABCDEFGHJKLMNOPQRST"  # Go Text Protocol 2, section 2.11: no I
PASS: Final = "pass"


def vertex(move: int, size: int) -> str:
    """Write an action as people do: C3, pass; row 1 is the lowest."""
    row, column = divmod(move, size)
    return PASS if move == size * size else f"{COLUMNS[column]}{size - row}"


def action(text: str, size: int) -> int | None:
    """Read what `vertex` writes; None where it is none."""
    if text == PASS:
        return size * size
    column, row = COLUMNS.find(text[:1]), text[1:]
    if not 0 <= column < size or not (row.isascii() and row.isdigit()) or not 1 <= int(row) <= size:
        return None
    return (size - int(row)) * size + column


def check_legal(path: Path | str, moves: Sequence[int], size: int) -> None:
    """Refuse a record with an illegal move, by RequestError that names it."""
    shape, boards, seen_NH = geometry(size), Boards.empty(size, 1), np.zeros((1, 0), np.uint64)
    for number, move in enumerate(moves, 1):
        seen_NH = np.concatenate([seen_NH, boards.hash_N[:, None]], axis=1)
        if boards.passes_N[0] >= 2:
            raise RequestError(f"{path}: move {number} comes after two passes, which end a game")
        if not legal_with_superko(shape, boards, seen_NH)[0, move]:
            if boards.stones_NC[0, [*shape.cell_P, 0][move]]:
                why = "the point is not empty"
            else:
                why = "it repeats an earlier position" if legal(shape, boards)[0, move] else "it is suicide"
            raise RequestError(f"{path}: move {number}, {'white' if boards.mover_N[0] < 0 else 'black'} {vertex(move, size)}, is illegal: {why}")
        boards = play(shape, boards, np.array([move]))
