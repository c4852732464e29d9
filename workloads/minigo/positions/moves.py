"""Formats and parses moves, replays games, and checks that their moves are legal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import numpy as np

from suite.errors import RequestError
from workloads.minigo.go.board import (
    Array,
    Boards,
    build_board_geometry,
    find_legal_actions,
    find_superko_legal_actions,
    play_actions,
)

# Legend: N games that are played on, H positions of a game.
GTP_COLUMN_LETTERS: Final = "ABCDEFGHJKLMNOPQRST"  # Go Text Protocol 2, section 2.11: no I
PASS_WORD: Final = "pass"
NO_MOVE: Final = -1


def format_go_move(move: int, size: int) -> str:
    """Format an action as players do: C3, pass; row 1 is the lowest."""
    row, column = divmod(move, size)
    return PASS_WORD if move == size * size else f"{GTP_COLUMN_LETTERS[column]}{size - row}"


def parse_go_move(text: str, size: int) -> int | None:
    """Parse the output of `format_go_move`; None if it is invalid."""
    if text == PASS_WORD:
        return size * size
    column, row = GTP_COLUMN_LETTERS.find(text[:1]), text[1:]
    if not 0 <= column < size or not (row.isascii() and row.isdigit()) or not 1 <= int(row) <= size:
        return None
    return (size - int(row)) * size + column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayStage:
    """Games that have reached the same number of moves."""

    game_N: Array
    boards: Boards
    history_hash_NH: Array
    """Hashes of all positions of each game, including the current one."""
    move_N: Array
    """The next action; NONE after the last move."""


def replay_games(games: Sequence[Sequence[int]], size: int) -> Iterator[ReplayStage]:
    """Replay games side by side; yield before each of their moves, and once after the last."""
    shape, game_N = build_board_geometry(size), np.arange(len(games))
    boards, history_hash_NH = (
        Boards.build_empty(size, len(games)),
        np.zeros((len(games), 0), np.uint64),
    )
    for number in range(1 + max(map(len, games), default=-1)):
        history_hash_NH = np.concatenate([history_hash_NH, boards.hash_N[:, None]], axis=1)
        move_N = np.array(
            [
                games[game][number] if number < len(games[game]) else NO_MOVE
                for game in game_N.tolist()
            ],
            np.int64,
        )
        yield ReplayStage(
            game_N=game_N, boards=boards, history_hash_NH=history_hash_NH, move_N=move_N
        )
        going = np.flatnonzero(move_N != NO_MOVE)
        game_N, history_hash_NH, boards = (
            game_N[going],
            history_hash_NH[going],
            play_actions(shape, boards[going], move_N[going]),
        )


def check_legal_game(path: Path | str, moves: Sequence[int], size: int) -> None:
    """Raise RequestError for a record with an illegal move, which it names."""
    check_legal_games([(path, moves)], size)


def check_legal_games(records: Sequence[tuple[Path | str, Sequence[int]]], size: int) -> None:
    """Raise RequestError for records with an illegal move; it names the earliest one."""
    for number, stage in enumerate(replay_games([moves for _, moves in records], size), 1):
        going = np.flatnonzero(stage.move_N != NO_MOVE)
        boards, move_N = stage.boards[going], stage.move_N[going]
        legal_NA = find_superko_legal_actions(
            build_board_geometry(size), boards, stage.history_hash_NH[going]
        )
        for row in np.flatnonzero(
            (boards.passes_N >= 2) | ~legal_NA[np.arange(len(going)), move_N]
        ):
            raise_illegal_move(
                records[stage.game_N[going[row]]][0], number, int(move_N[row]), size, boards[[row]]
            )


def raise_illegal_move(
    path: Path | str, number: int, move: int, size: int, board: Boards
) -> NoReturn:
    """Raise RequestError with the reason why a move is illegal."""
    shape = build_board_geometry(size)
    if board.passes_N[0] >= 2:
        raise RequestError(f"{path}: move {number} comes after two passes, which end a game")
    if board.stones_NC[0, [*shape.cell_P, 0][move]]:
        reason = "the point is not empty"
    else:
        reason = "it is suicide"
        if find_legal_actions(shape, board)[0, move]:
            reason = "it repeats an earlier position"
    raise RequestError(
        f"{path}: move {number}, {'white' if board.mover_N[0] < 0 else 'black'}"
        f" {format_go_move(move, size)}, is illegal: {reason}"
    )
