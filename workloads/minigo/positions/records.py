"""Positions of recorded games, each with the move and the winner to find.

A folder contains `games/<name>.sgf` and, unless every move of the games is used, `labels.csv`:
file, moves played before the position, move, winner. Without it, the moves that were played are the
labels (MLPerf v0.5: mlcommons/training v0.5, minigo, predict_games.py) and the winner is the
record's.
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
from suite.files.foreign_names import is_foreign_name
from suite.files.untrusted_files import (
    UnreadableError,
    decode_user_text,
    read_untrusted_file,
)
from workloads.minigo.go.board import (
    BLACK,
    WHITE,
    Array,
    build_board_geometry,
    find_superko_legal_actions,
)
from workloads.minigo.go.features import (
    SHOWN_POSITIONS_BY_PLANES,
    build_feature_planes,
    prepend_current_stones,
)
from workloads.minigo.positions.moves import (
    check_legal_game,
    check_legal_games,
    format_go_move,
    parse_go_move,
    replay_games,
)

# Legend: N games, A actions, F planes, P points.
GAMES_FOLDER: Final = "games"
CALIBRATION_FOLDER: Final = "calibration"
POSITION_LABELS_FILE: Final = "labels.csv"
GAMES_REPLAYED_AT_ONCE: Final = (
    64  # games replayed side by side; more would not be faster and would take more memory
)
STONE_COLOUR_BY_LETTER: Final[Mapping[str, int]] = {"B": BLACK, "W": WHITE}


@dataclass(frozen=True, slots=True, kw_only=True)
class GameRecord:
    """One game."""

    name: str
    """Name of its file."""
    moves: tuple[int, ...]
    winner: int
    """1 black, -1 white, 0 unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionLabel:
    """The move and the winner to find in one position."""

    name: str
    played: int
    """Number of moves of the record before the position."""
    move: int
    winner: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedPosition:
    """The network's input for one position."""

    plane_FP: Array
    """uint8."""
    legal_A: Array


def read_game_record(path: Path, size: int) -> GameRecord:
    """Read a record; RequestError if it is malformed, or has set-up stones, another board size or a
    move that is illegal by workloads/minigo/go.
    """
    found = _read_unchecked_record(path, size)
    check_legal_game(path, found.moves, size)
    return found


def _read_unchecked_record(path: Path, size: int) -> GameRecord:
    try:
        game = read_untrusted_file(path, sgf.Sgf_game.from_bytes)
        found_size = game.get_size()
        if found_size != size:
            raise RequestError(
                f"{path}: a game on {found_size} x {found_size}, but the board is {size} x {size}"
            )
        nodes: Sequence[Any] = game.get_main_sequence()
        if any(node.has_setup_stones() for node in nodes):
            raise RequestError(
                f"{path}: a game with set-up stones; games must start from the empty board"
            )
        moves = tuple(_parse_record_moves(path, nodes, size))
        winner = STONE_COLOUR_BY_LETTER.get(str(game.get_winner() or "").upper(), 0)
    except (UnreadableError, ValueError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), "an invalid value")
        raise RequestError(f"{path}: not a readable game record ({reason})") from error
    return GameRecord(name=path.name, moves=moves, winner=winner)


def _parse_record_moves(path: Path, nodes: Sequence[Any], size: int) -> Iterator[int]:
    """Yield the actions; the colours must alternate, black first."""
    number = 0
    for node in nodes:
        colour, point = node.get_move()
        if colour is None:
            continue
        number += 1
        if colour != ("b" if number % 2 else "w"):
            raise RequestError(
                f"{path}: move {number} is {'black' if colour == 'b' else 'white'}'s; the colours "
                "must alternate, black first"
            )
        yield size * size if point is None else (size - 1 - point[0]) * size + point[1]


def read_game_records(folder: Path, size: int) -> list[GameRecord]:
    """Read all games of a folder, sorted by name; RequestError if there are none.

    Names that no data set has (suite.files.foreign_names) are left out.
    """
    listed = sorted(folder.glob("*.sgf")) if folder.is_dir() else []
    paths = [path for path in listed if not is_foreign_name(path.name)]
    if not paths:
        raise RequestError(f"{folder}: no game records (*.sgf)")
    found = [_read_unchecked_record(path, size) for path in paths]
    for start in range(0, len(found), GAMES_REPLAYED_AT_ONCE):
        check_legal_games(
            [
                (folder / game.name, game.moves)
                for game in found[start : start + GAMES_REPLAYED_AT_ONCE]
            ],
            size,
        )
    return found


def read_position_labels(
    root: Path, records: Sequence[GameRecord], size: int
) -> list[PositionLabel]:
    """Return the labels: labels.csv or, without it, every move of the games; RequestError if a
    label matches no game.
    """
    if not (root / POSITION_LABELS_FILE).exists():
        found = [
            PositionLabel(name=game.name, played=number, move=move, winner=game.winner)
            for game in records
            for number, move in enumerate(game.moves)
        ]
        if silent := next((game.name for game in records if not game.winner), None):
            raise RequestError(
                f"{root / GAMES_FOLDER / silent}: the record does not state who won (RE)"
            )
        return found
    lengths = {game.name: len(game.moves) for game in records}
    try:
        text = read_untrusted_file(root / POSITION_LABELS_FILE, decode_user_text)
        rows = list(csv.reader(StringIO(text)))
    except (UnreadableError, csv.Error) as error:
        raise RequestError(f"{root / POSITION_LABELS_FILE}: unreadable ({error})") from error
    return [
        _parse_label_row(root / POSITION_LABELS_FILE, number, row, lengths, size)
        for number, row in enumerate(rows, 1)
    ]


def _parse_label_row(
    path: Path, number: int, row: Sequence[str], lengths: Mapping[str, int], size: int
) -> PositionLabel:
    name, played, move, winner = row if len(row) == 4 else ("", "", "", "")
    wanted, digits = (
        parse_go_move(move, size),
        played.isascii() and played.isdigit() and len(played) < 5,
    )
    if (
        name not in lengths
        or not digits
        or int(played) > lengths[name]
        or wanted is None
        or winner not in STONE_COLOUR_BY_LETTER
    ):
        raise RequestError(
            f"{path}, line {number}: expected 'game file, moves before the position, move, B or "
            f"W' for a game in {GAMES_FOLDER}"
        )
    return PositionLabel(
        name=name, played=int(played), move=wanted, winner=STONE_COLOUR_BY_LETTER[winner]
    )


def check_position_labels(
    path: Path, records: Sequence[GameRecord], labels: Sequence[PositionLabel], size: int
) -> None:
    """Raise RequestError for a label whose move is illegal, since no answer can contain it."""
    labelled_positions = replay_to_positions(
        records,
        [(label.name, label.played) for label in labels],
        size,
        min(SHOWN_POSITIONS_BY_PLANES),
    )
    for label, position in zip(labels, labelled_positions, strict=True):
        if not position.legal_A[label.move]:
            raise RequestError(
                f"{path}: {label.name} after {label.played} moves:"
                f" {format_go_move(label.move, size)} is illegal there"
            )


def replay_to_positions(
    records: Sequence[GameRecord], requested: Sequence[tuple[str, int]], size: int, plane_count: int
) -> list[RecordedPosition]:
    """Replay games up to the requested positions, given as (name, moves before it); return them in
    the same order.
    """
    games, wanted = {game.name: game for game in records}, defaultdict[str, set[int]](set)
    for name, before in requested:
        wanted[name].add(before)
    names, found = list(wanted), dict[tuple[str, int], RecordedPosition]()
    for start in range(0, len(names), GAMES_REPLAYED_AT_ONCE):
        batch_names = names[start : start + GAMES_REPLAYED_AT_ONCE]
        found |= _replay_batch_to_positions(
            [games[name] for name in batch_names],
            [wanted[name] for name in batch_names],
            size,
            plane_count,
        )
    return [found[one] for one in requested]


def _replay_batch_to_positions(
    games: Sequence[GameRecord], wanted: Sequence[Set[int]], size: int, plane_count: int
) -> dict[tuple[str, int], RecordedPosition]:
    """Replay games side by side up to the requested positions of each."""
    shape, found = build_board_geometry(size), dict[tuple[str, int], RecordedPosition]()
    past_NTP = np.zeros((len(games), SHOWN_POSITIONS_BY_PLANES[plane_count], shape.points), np.int8)
    for before, stage in enumerate(
        replay_games(
            [game.moves[: max(some)] for game, some in zip(games, wanted, strict=True)], size
        )
    ):
        past_NTP[stage.game_N] = prepend_current_stones(shape, stage.boards, past_NTP[stage.game_N])
        rows = np.flatnonzero([before in wanted[game] for game in stage.game_N])
        boards, game_N = stage.boards[rows], stage.game_N[rows]
        plane_NFP, legal_NA = (
            build_feature_planes(shape, boards, past_NTP[game_N], plane_count),
            find_superko_legal_actions(shape, boards, stage.history_hash_NH[rows]),
        )
        for game, plane_FP, legal_A in zip(game_N, plane_NFP, legal_NA, strict=True):
            found[games[game].name, before] = RecordedPosition(
                plane_FP=plane_FP.copy(), legal_A=legal_A.copy()
            )
    return found
