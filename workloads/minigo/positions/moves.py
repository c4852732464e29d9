"""Moves as people write them, games played from them, and whether those have only legal ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import numpy as np

from suite.errors import RequestError
from workloads.minigo.go.board import Array, Boards, geometry, legal, legal_with_superko, play

# Legend: N games that are played on, H positions of a game.
COLUMNS: Final = "ABCDEFGHJKLMNOPQRST"  # Go Text Protocol 2, section 2.11: no I
PASS: Final = "pass"
NONE: Final = -1


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """Games that have got to the same number of moves."""

    game_N: Array
    boards: Boards
    seen_NH: Array
    """Hashes of all positions of each game, this one too."""
    move_N: Array
    """What is played next; NONE behind the last move."""


def played(games: Sequence[Sequence[int]], size: int) -> Iterator[Stage]:
    """Play games side by side; yields before each of their moves, and once behind the last."""
    shape, game_N = geometry(size), np.arange(len(games))
    boards, seen_NH = Boards.empty(size, len(games)), np.zeros((len(games), 0), np.uint64)
    for number in range(1 + max(map(len, games), default=-1)):
        seen_NH = np.concatenate([seen_NH, boards.hash_N[:, None]], axis=1)
        move_N = np.array(
            [
                games[game][number] if number < len(games[game]) else NONE
                for game in game_N.tolist()
            ],
            np.int64,
        )
        yield Stage(game_N=game_N, boards=boards, seen_NH=seen_NH, move_N=move_N)
        going = np.flatnonzero(move_N != NONE)
        game_N, seen_NH, boards = (
            game_N[going],
            seen_NH[going],
            play(shape, boards[going], move_N[going]),
        )


def check_legal(path: Path | str, moves: Sequence[int], size: int) -> None:
    """Refuse a record with an illegal move, by RequestError that names it."""
    check_all_legal([(path, moves)], size)


def check_all_legal(records: Sequence[tuple[Path | str, Sequence[int]]], size: int) -> None:
    """Refuse records with an illegal move; the earliest one is named."""
    for number, stage in enumerate(played([moves for _, moves in records], size), 1):
        going = np.flatnonzero(stage.move_N != NONE)
        boards, move_N = stage.boards[going], stage.move_N[going]
        legal_NA = legal_with_superko(geometry(size), boards, stage.seen_NH[going])
        for row in np.flatnonzero(
            (boards.passes_N >= 2) | ~legal_NA[np.arange(len(going)), move_N]
        ):
            refuse(
                records[stage.game_N[going[row]]][0], number, int(move_N[row]), size, boards[[row]]
            )


def refuse(path: Path | str, number: int, move: int, size: int, board: Boards) -> NoReturn:
    """Say why a move is illegal."""
    shape = geometry(size)
    if board.passes_N[0] >= 2:
        raise RequestError(f"{path}: move {number} comes after two passes, which end a game")
    if board.stones_NC[0, [*shape.cell_P, 0][move]]:
        why = "the point is not empty"
    else:
        why = "it repeats an earlier position" if legal(shape, board)[0, move] else "it is suicide"
    raise RequestError(
        f"{path}: move {number}, {'white' if board.mover_N[0] < 0 else 'black'}"
        f" {vertex(move, size)}, is illegal: {why}"
    )
