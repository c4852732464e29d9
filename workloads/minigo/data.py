"""Finds what a run reads: game records and, where the user brings them, the weights of the opponent
and those to start from.
"""

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
SAME: Final = {OPPONENT: ("planes",), START: ("planes", "filters", "blocks", "hidden")}
"""What a checkpoint must have as the run has it: games note what both players see, and the network
goes on from all of the start's weights.
"""


def folder_of(run: Run) -> Path:
    """Give the user's folder, or the embedded one, written at first use."""
    return run.data or generated(run.cache, f"minigo-positions-{embedded.VERSION}", embedded.write)


def check_training(run: Run, recipe: Recipe) -> dict[str, str]:
    """Refuse, before the clock, a run whose opponent or start is missing or fits it not:
    RequestError. Returns the hashes of those that it plays with.
    """
    from workloads.minigo.survey import MiniGoSet

    found: Any = run_request.found(run, MiniGoSet)
    used = [
        part
        for part, asked in ((OPPONENT, recipe.opponent), (START, recipe.start))
        if asked == CHECKPOINT
    ]
    for part in used:
        folder = folder_of(run) / part
        if found.get(part) is None:
            raise RequestError(
                f"{model.NAME}: {folder}: no checkpoint there, and the {part} is one: a folder as"
                " `podium train` exports it"
            )
        for name in SAME[part]:
            if found[part][name] != (wanted := getattr(recipe, name)):
                raise RequestError(
                    f"checkpoint {folder}: its model.{name} is {found[part][name]}, and the run's"
                    f" is {wanted}"
                )
    return {part: str(found[part]["sha256"]) for part in used}


def opponent(run: Run, board: int) -> model.MiniGo:
    """Load the fixed opponent."""
    return model.load(folder_of(run) / OPPONENT, board)


def start(run: Run, board: int) -> model.MiniGo:
    """Load the weights that a run starts from."""
    return model.load(folder_of(run) / START, board)
