"""Input rails of boards: data of boards.toml, found by the board's name in the device tree."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

MODULE_SCOPE: Final = "module"
"""The scope of a rail that feeds the whole module."""
RAIL_PREFIX: Final = "rail:"
COMPATIBLE_FILE: Final = "proc/device-tree/compatible"
"""Kernel documentation, devicetree/usage-model.rst: names of the board, most specific first, each
terminated by a zero byte.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RailBoard:
    """A board with known rails."""

    name: str
    compatible: tuple[str, ...]
    input: tuple[str, ...]
    """Labels of the rail that feeds the whole module; empty if no rail does."""
    carrier: str
    """Label of the carrier board's own input, which feeds module and carrier; empty if none is
    measured.
    """
    outside: tuple[str, ...]
    """Labels of the carrier board's other rails, beside the module."""
    source: str


@cache
def read_boards() -> Mapping[str, RailBoard]:
    """Read the boards: an entry of the device tree's list -> the board."""
    table = tomllib.loads((files("extras.jetson") / "boards.toml").read_text("utf-8"))
    found = [
        RailBoard(
            name=each["name"],
            compatible=tuple(each["compatible"]),
            input=tuple(each["input"]),
            source=each["source"],
            **parse_board_inputs(each),
        )
        for each in table["board"]
    ]
    return {name: board for board in found for name in board.compatible}


def parse_board_inputs(table: Mapping[str, Any]) -> dict[str, Any]:
    """Read what hangs on a board's inputs."""
    return {"carrier": str(table.get("carrier", "")), "outside": tuple(table.get("outside", ()))}


def resolve_rail_scope(
    label: str, known: RailBoard | None, labels: Iterable[str]
) -> tuple[str, tuple[str, ...]]:
    """Return a rail's scope and the scopes that contain it. On an unknown board any other rail may:
    so no sum has one twice.
    """
    if known is None:
        return f"{RAIL_PREFIX}{label}", tuple(
            f"{RAIL_PREFIX}{other}" for other in labels if other != label
        )
    if not known.input or label == known.carrier:
        return f"{RAIL_PREFIX}{label}", ()
    outer = (f"{RAIL_PREFIX}{known.carrier}",) if known.carrier else ()
    if label in known.input:
        return MODULE_SCOPE, outer
    return f"{RAIL_PREFIX}{label}", outer if label in known.outside else (MODULE_SCOPE, *outer)


def identify_board(root: Path) -> RailBoard | None:
    """Identify the board below a root; None if it is not in the list."""
    try:
        names = (root / COMPATIBLE_FILE).read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    return next((read_boards()[name] for name in names if name in read_boards()), None)
