"""Finds what a run reads: game records and, where the user brings them, the weights of the opponent and those to start from."""

from pathlib import Path
from typing import Any, Final

from suite.errors import RequestError
from suite.workload import Run
from workloads.common import run_request
from workloads.common.embedded_cache import generated
from workloads.minigo import model
from workloads.minigo.positions import embedded
from workloads.minigo.recipe import CHECKPOINT, Recipe

OPPONENT: Final = "opponent"
START: Final = "start"


def folder_of(run: Run) -> Path:
    """Give the user's folder, or the embedded one, written at first use."""
    return run.data or generated(run.cache, f"minigo-positions-{embedded.VERSION}", embedded.write)


def check_training(run: Run, recipe: Recipe) -> None:
    """Refuse, before the clock, a run whose opponent or start is missing or for another board: RequestError."""
    from workloads.minigo.survey import MiniGoSet

    found: Any = run_request.found(run, MiniGoSet)
    for part, asked in ((OPPONENT, recipe.opponent), (START, recipe.start)):
        if asked == CHECKPOINT and found.get(part) is None:
            raise RequestError(f"{model.NAME}: {folder_of(run) / part}: no checkpoint there, and the {part} is one: a folder as `podium train` exports it")


def opponent(run: Run, board: int) -> model.MiniGo:
    """Load the fixed opponent."""
    return model.load(folder_of(run) / OPPONENT, board)


def start(run: Run, board: int) -> model.MiniGo:
    """Load the weights that a run starts from."""
    return model.load(folder_of(run) / START, board)
