"""Positions of recorded games, each with the move and the winner that are to be found.

A folder has `games/<name>.sgf` and, where not every move of the games is asked for, `labels.csv`:
file, moves played before the position, move,
winner. Without it, the moves that were played are the labels (MLPerf v0.5: mlcommons/training v0.5,
minigo, predict_games.py) and the winner is
the record's.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from sgfmill import sgf

from suite.errors import RequestError
from suite.files.untrusted_files import UnreadableError, read, read_text
from workloads.minigo.go.board import BLACK, WHITE, Array, geometry, legal_with_superko
from workloads.minigo.go.features import SEEN, newest, planes
from workloads.minigo.positions.moves import action, check_all_legal, check_legal, played, vertex

# Legend: N games, A actions, F planes, P points.
GAMES: Final = "games"
CALIBRATION: Final = "calibration"
LABELS: Final = "labels.csv"
GAMES_AT_ONCE: Final = 64  # are played side by side; more would not be faster, and take more memory
COLOURS: Final[Mapping[str, int]] = {"B": BLACK, "W": WHITE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One game."""

    name: str
    """Of its file."""
    moves: tuple[int, ...]
    winner: int
    """1 black, -1 white, 0 not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What is to be found in one position."""

    name: str
    played: int
    """Moves of the record before it."""
    move: int
    winner: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Position:
    """What the network is shown of one position."""

    plane_FP: Array
    """uint8."""
    legal_A: Array
    mover: int


def read_record(path: Path, size: int) -> Record:
    """Read a record; RequestError where it is none, has set-up stones, another board or an illegal
    move. Legal: as workloads/minigo/go has it.
    """
    found = _parsed(path, size)
    check_legal(path, found.moves, size)
    return found


def _parsed(path: Path, size: int) -> Record:
    try:
        game = read(path, sgf.Sgf_game.from_bytes)
        found = game.get_size()
        if found != size:
            raise RequestError(
                f"{path}: a game on {found} x {found}, and the board is {size} x {size}"
            )
        nodes: Sequence[Any] = game.get_main_sequence()
        if any(node.has_setup_stones() for node in nodes):
            raise RequestError(
                f"{path}: a game with set-up stones; games start from the empty board"
            )
        moves = tuple(_moves(path, nodes, size))
        winner = COLOURS.get(str(game.get_winner() or "").upper(), 0)
    except (UnreadableError, ValueError, KeyError) as error:
        why = next(iter(str(error).splitlines()), "a value that no record has")
        raise RequestError(f"{path}: no readable game record ({why})") from error
    return Record(name=path.name, moves=moves, winner=winner)


def _moves(path: Path, nodes: Sequence[Any], size: int) -> Iterator[int]:
    """Yield the actions; both colours in turn, black first."""
    number = 0
    for node in nodes:
        colour, place = node.get_move()
        if colour is None:
            continue
        number += 1
        if colour != ("b" if number % 2 else "w"):
            raise RequestError(
                f"{path}: move {number} is {'black' if colour == 'b' else 'white'}'s; the colours"
                " move in turn, black first"
            )
        yield size * size if place is None else (size - 1 - place[0]) * size + place[1]


def read_records(folder: Path, size: int) -> list[Record]:
    """Read all games of a folder, in the order of their names; RequestError where there are
    none.
    """
    paths = sorted(folder.glob("*.sgf")) if folder.is_dir() else []
    if not paths:
        raise RequestError(f"{folder}: no game records (*.sgf)")
    found = [_parsed(path, size) for path in paths]
    for start in range(0, len(found), GAMES_AT_ONCE):
        check_all_legal(
            [(folder / game.name, game.moves) for game in found[start : start + GAMES_AT_ONCE]],
            size,
        )
    return found


def read_labels(root: Path, records: Sequence[Record], size: int) -> list[Label]:
    """Give what is asked: labels.csv or, without it, every move of the games; RequestError where a
    label fits no game.
    """
    if not (root / LABELS).exists():
        found = [
            Label(name=game.name, played=number, move=move, winner=game.winner)
            for game in records
            for number, move in enumerate(game.moves)
        ]
        if silent := next((game.name for game in records if not game.winner), None):
            raise RequestError(f"{root / GAMES / silent}: the record does not say who won (RE)")
        return found
    lengths = {game.name: len(game.moves) for game in records}
    try:
        rows = list(csv.reader(StringIO(read_text(root / LABELS))))
    except (UnreadableError, csv.Error) as error:
        raise RequestError(f"{root / LABELS}: unreadable ({error})") from error
    return [_label(root / LABELS, number, row, lengths, size) for number, row in enumerate(rows, 1)]


def _label(
    path: Path, number: int, row: Sequence[str], lengths: Mapping[str, int], size: int
) -> Label:
    name, played, move, winner = row if len(row) == 4 else ("", "", "", "")
    wanted, digits = action(move, size), played.isascii() and played.isdigit() and len(played) < 5
    if (
        name not in lengths
        or not digits
        or int(played) > lengths[name]
        or wanted is None
        or winner not in COLOURS
    ):
        raise RequestError(
            f"{path}, line {number}: 'game file, moves before the position, move, B or W' of a game"
            f" in {GAMES} is wanted"
        )
    return Label(name=name, played=int(played), move=wanted, winner=COLOURS[winner])


def check_labels(path: Path, records: Sequence[Record], labels: Sequence[Label], size: int) -> None:
    """Refuse labels that ask for an illegal move, which no answer has: RequestError."""
    shown = positions(records, [(label.name, label.played) for label in labels], size, min(SEEN))
    for label, position in zip(labels, shown, strict=True):
        if not position.legal_A[label.move]:
            raise RequestError(
                f"{path}: {label.name} after {label.played} moves: {vertex(label.move, size)} is"
                " illegal there"
            )


def positions(
    records: Sequence[Record], asked: Sequence[tuple[str, int]], size: int, plane_count: int
) -> list[Position]:
    """Play games up to the positions that are asked for, as (name, moves before it); the result has
    their order.
    """
    games, wanted = {game.name: game for game in records}, defaultdict[str, set[int]](set)
    for name, before in asked:
        wanted[name].add(before)
    names, found = list(wanted), dict[tuple[str, int], Position]()
    for start in range(0, len(names), GAMES_AT_ONCE):
        some = names[start : start + GAMES_AT_ONCE]
        found |= _shown(
            [games[name] for name in some], [wanted[name] for name in some], size, plane_count
        )
    return [found[one] for one in asked]


def _shown(
    games: Sequence[Record], wanted: Sequence[Set[int]], size: int, plane_count: int
) -> dict[tuple[str, int], Position]:
    """Play games side by side to the positions that are wanted of each."""
    shape, found = geometry(size), dict[tuple[str, int], Position]()
    past_NTP = np.zeros((len(games), SEEN[plane_count], shape.points), np.int8)
    for before, stage in enumerate(
        played([game.moves[: max(some)] for game, some in zip(games, wanted, strict=True)], size)
    ):
        past_NTP[stage.game_N] = newest(shape, stage.boards, past_NTP[stage.game_N])
        rows = np.flatnonzero([before in wanted[game] for game in stage.game_N])
        boards, game_N = stage.boards[rows], stage.game_N[rows]
        plane_NFP, legal_NA = (
            planes(shape, boards, past_NTP[game_N], plane_count),
            legal_with_superko(shape, boards, stage.seen_NH[rows]),
        )
        for game, plane_FP, legal_A, mover in zip(
            game_N, plane_NFP, legal_NA, boards.mover_N, strict=True
        ):
            found[games[game].name, before] = Position(
                plane_FP=plane_FP.copy(), legal_A=legal_A.copy(), mover=int(mover)
            )
    return found
