"""Positions of recorded games, each with the move and the winner that are to be found.

A folder has `games/<name>.sgf` and, where not every move of the games is asked for, `labels.csv`: file, moves played before the position, move,
winner. Without it, the moves that were played are the labels (MLPerf v0.5: mlcommons/training v0.5, minigo, predict_games.py) and the winner is
the record's.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from sgfmill import sgf

from suite.errors import RequestError
from suite.files.untrusted_files import UnreadableError, read, read_text
from workloads.minigo.go.board import BLACK, WHITE, Array, Boards, geometry, legal_with_superko, play
from workloads.minigo.go.features import SEEN, newest, planes
from workloads.minigo.positions.moves import action, check_legal, vertex

# Legend: N games, A actions, F planes, P points.
GAMES: Final = "games"
CALIBRATION: Final = "calibration"
LABELS: Final = "labels.csv"
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
    """Read a record; RequestError where it is none, has set-up stones, another board or an illegal move. Legal: as workloads/minigo/go has it."""
    try:
        game = read(path, sgf.Sgf_game.from_bytes)
        found = game.get_size()
        if found != size:
            raise RequestError(f"{path}: a game on {found} x {found}, and the board is {size} x {size}")
        nodes: Sequence[Any] = game.get_main_sequence()
        if any(node.has_setup_stones() for node in nodes):
            raise RequestError(f"{path}: a game with set-up stones; games start from the empty board")
        moves = tuple(_moves(path, nodes, size))
        winner = COLOURS.get(str(game.get_winner() or "").upper(), 0)
    except (UnreadableError, ValueError, KeyError) as error:
        why = next(iter(str(error).splitlines()), "a value that no record has")
        raise RequestError(f"{path}: no readable game record ({why})") from error
    check_legal(path, moves, size)
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
            raise RequestError(f"{path}: move {number} is {'black' if colour == 'b' else 'white'}'s; the colours move in turn, black first")
        yield size * size if place is None else (size - 1 - place[0]) * size + place[1]


def read_records(folder: Path, size: int) -> list[Record]:
    """Read all games of a folder, in the order of their names; RequestError where there are none."""
    paths = sorted(folder.glob("*.sgf")) if folder.is_dir() else []
    if not paths:
        raise RequestError(f"{folder}: no game records (*.sgf)")
    return [read_record(path, size) for path in paths]


def read_labels(root: Path, records: Sequence[Record], size: int) -> list[Label]:
    """Give what is asked: labels.csv or, without it, every move of the games; RequestError where a label fits no game."""
    if not (root / LABELS).exists():
        found = [Label(name=game.name, played=number, move=move, winner=game.winner) for game in records for number, move in enumerate(game.moves)]
        if silent := next((game.name for game in records if not game.winner), None):
            raise RequestError(f"{root / GAMES / silent}: the record does not say who won (RE)")
        return found
    lengths = {game.name: len(game.moves) for game in records}
    try:
        rows = list(csv.reader(StringIO(read_text(root / LABELS))))
    except (UnreadableError, csv.Error) as error:
        raise RequestError(f"{root / LABELS}: unreadable ({error})") from error
    return [_label(root / LABELS, number, row, lengths, size) for number, row in enumerate(rows, 1)]


def _label(path: Path, number: int, row: Sequence[str], lengths: Mapping[str, int], size: int) -> Label:
    name, played, move, winner = row if len(row) == 4 else ("", "", "", "")
    wanted, digits = action(move, size), played.isascii() and played.isdigit() and len(played) < 5
    if name not in lengths or not digits or int(played) > lengths[name] or wanted is None or winner not in COLOURS:
        raise RequestError(f"{path}, line {number}: 'game file, moves before the position, move, B or W' of a game in {GAMES} is wanted")
    return Label(name=name, played=int(played), move=wanted, winner=COLOURS[winner])


def check_labels(path: Path, records: Sequence[Record], labels: Sequence[Label], size: int) -> None:
    """Refuse labels that ask for an illegal move, which no answer has: RequestError."""
    shown = positions(records, [(label.name, label.played) for label in labels], size, min(SEEN))
    for label, position in zip(labels, shown, strict=True):
        if not position.legal_A[label.move]:
            raise RequestError(f"{path}: {label.name} after {label.played} moves: {vertex(label.move, size)} is illegal there")


def positions(records: Sequence[Record], asked: Sequence[tuple[str, int]], size: int, plane_count: int) -> list[Position]:
    """Play games up to the positions that are asked for, as (name, moves before it); the result has their order."""
    shape, games = geometry(size), {game.name: game for game in records}
    found: dict[tuple[str, int], Position] = {}
    for name in dict.fromkeys(name for name, _ in asked):
        wanted = {played for other, played in asked if other == name}
        boards, past_NTP, seen_NH = Boards.empty(size, 1), np.zeros((1, SEEN[plane_count], shape.points), np.int8), np.zeros((1, 0), np.uint64)
        for played, move in enumerate((*games[name].moves[: max(wanted)], None)):
            seen_NH = np.concatenate([seen_NH, boards.hash_N[:, None]], axis=1)
            if played in wanted:
                plane_FP, legal_A = planes(shape, boards, past_NTP, plane_count)[0], legal_with_superko(shape, boards, seen_NH)[0]
                found[name, played] = Position(plane_FP=plane_FP, legal_A=legal_A, mover=int(boards.mover_N[0]))
            if move is not None:
                boards = play(shape, boards, np.array([move]))
                past_NTP = newest(shape, boards, past_NTP)
    return [found[one] for one in asked]
