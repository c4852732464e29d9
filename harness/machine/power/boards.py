"""Input rails of boards: data of boards.toml, found by the board's name in the device tree."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

COMPATIBLE: Final = "proc/device-tree/compatible"
"""Kernel documentation, devicetree/usage-model.rst: names of the board, most specific first, each terminated by a zero byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board with known rails."""

    name: str
    compatible: tuple[str, ...]
    input: tuple[str, ...]
    """Labels of the rail that feeds the whole module; empty if no rail does."""
    source: str


@cache
def boards() -> Mapping[str, Board]:
    """Read the boards: an entry of the device tree's list -> the board."""
    table = tomllib.loads((files("harness.machine.power") / "boards.toml").read_text("utf-8"))
    found = [
        Board(name=each["name"], compatible=tuple(each["compatible"]), input=tuple(each["input"]), source=each["source"]) for each in table["board"]
    ]
    return {name: board for board in found for name in board.compatible}


def board(root: Path) -> Board | None:
    """Identify the board below a root; None if it is not in the list."""
    try:
        names = (root / COMPATIBLE).read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    return next((boards()[name] for name in names if name in boards()), None)
