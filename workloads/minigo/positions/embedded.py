"""The embedded positions of `smoke`, packed in smoke.csv, written as game records:
benchmarks/minigo_labels.py made them.
"""

import csv
from collections.abc import Iterator
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Final

from sgfmill import sgf

from workloads.minigo.positions.moves import vertex
from workloads.minigo.positions.records import CALIBRATION, GAMES, LABELS

VERSION: Final = 1  # part of the cache folder's name: other positions are another folder
SIZE: Final = 5
KOMI: Final = 7.5
FOLDERS: Final = {"val": GAMES, "calibration": CALIBRATION}


def packed() -> Iterator[tuple[str, list[int], int, str]]:
    """Yield part, moves before the position, move to find, winner."""
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


def record(moves: list[int], winner: str) -> bytes:
    """Write a record."""
    game = sgf.Sgf_game(size=SIZE)
    game.get_root().set("KM", KOMI)
    game.get_root().set("RE", f"{winner}+")
    for number, move in enumerate(moves):
        row, column = divmod(move, SIZE)
        game.extend_main_sequence().set_move(
            "w" if number % 2 else "b", (SIZE - 1 - row, column) if move < SIZE * SIZE else None
        )
    found: bytes = game.serialise()
    return found


def write(folder: Path) -> None:
    """Write the records of both parts, and the labels of the accuracy set."""
    labels = []
    for name in FOLDERS.values():
        (folder / name).mkdir(parents=True)
    for number, (part, moves, move, winner) in enumerate(packed()):
        name = file_name(number)
        (folder / FOLDERS[part] / name).write_bytes(record(moves, winner))
        if part == "val":
            labels.append(f"{name},{len(moves)},{vertex(move, SIZE)},{winner}\n")
    (folder / LABELS).write_text("".join(labels), "ascii")


def file_name(number: int) -> str:
    """Name a record."""
    return f"position_{number:04d}.sgf"


def calibration_names() -> Iterator[str]:
    """Yield the records of the calibration list."""
    yield from (
        f"{CALIBRATION}/{file_name(number)}"
        for number, (part, *_) in enumerate(packed())
        if part == "calibration"
    )
