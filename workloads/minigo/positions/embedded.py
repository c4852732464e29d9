"""The embedded positions of `smoke`, packed in smoke.csv by benchmarks/minigo_labels.py, and
written as game records.
"""

import csv
from collections.abc import Iterator
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Final

from sgfmill import sgf

from workloads.minigo.positions.moves import format_go_move
from workloads.minigo.positions.records import (
    CALIBRATION_FOLDER,
    GAMES_FOLDER,
    POSITION_LABELS_FILE,
)

EMBEDDED_POSITIONS_VERSION: Final = (
    1  # part of the cache folder's name: changed positions need another folder
)
EMBEDDED_BOARD_SIDE: Final = 5
EMBEDDED_KOMI: Final = 7.5
EMBEDDED_RECORD_FOLDERS: Final = {"val": GAMES_FOLDER, "calibration": CALIBRATION_FOLDER}


def read_embedded_positions() -> Iterator[tuple[str, list[int], int, str]]:
    """Yield the part, the moves before the position, the move to find, and the winner."""
    rows = csv.reader(
        StringIO(files("workloads.minigo.positions").joinpath("smoke.csv").read_text("ascii"))
    )
    for part, moves, move, winner in rows:
        yield (
            part,
            [int(each) for each in moves.split()],
            int(move),
            "B" if int(winner) > 0 else "W",
        )


def encode_game_record(moves: list[int], winner: str) -> bytes:
    game = sgf.Sgf_game(size=EMBEDDED_BOARD_SIDE)
    game.get_root().set("KM", EMBEDDED_KOMI)
    game.get_root().set("RE", f"{winner}+")
    for number, move in enumerate(moves):
        row, column = divmod(move, EMBEDDED_BOARD_SIDE)
        point = None
        if move < EMBEDDED_BOARD_SIDE * EMBEDDED_BOARD_SIDE:
            point = (EMBEDDED_BOARD_SIDE - 1 - row, column)
        game.extend_main_sequence().set_move("w" if number % 2 else "b", point)
    found: bytes = game.serialise()
    return found


def write_embedded_positions(folder: Path) -> None:
    """Write the records of both parts, and the labels of the accuracy set."""
    labels = []
    for name in EMBEDDED_RECORD_FOLDERS.values():
        (folder / name).mkdir(parents=True)
    for number, (part, moves, move, winner) in enumerate(read_embedded_positions()):
        name = format_record_file_name(number)
        (folder / EMBEDDED_RECORD_FOLDERS[part] / name).write_bytes(
            encode_game_record(moves, winner)
        )
        if part == "val":
            labels.append(
                f"{name},{len(moves)},{format_go_move(move, EMBEDDED_BOARD_SIDE)},{winner}\n"
            )
    (folder / POSITION_LABELS_FILE).write_text("".join(labels), "ascii")


def format_record_file_name(number: int) -> str:
    return f"position_{number:04d}.sgf"


def iterate_calibration_records() -> Iterator[str]:
    """Yield the records of the calibration list."""
    yield from (
        f"{CALIBRATION_FOLDER}/{format_record_file_name(number)}"
        for number, (part, *_) in enumerate(read_embedded_positions())
        if part == "calibration"
    )
