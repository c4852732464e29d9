"""Finds the inputs of a run: game records and, if the user provides them, the weights of the
opponent and the start weights.
"""

from pathlib import Path
from typing import Any, Final

from suite.errors import RequestError
from suite.workload import Run
from workloads.common import run_request
from workloads.common.embedded_cache import create_cached_folder
from workloads.minigo import model
from workloads.minigo.positions import embedded
from workloads.minigo.recipe import CHECKPOINT_PLAYER, MiniGoRecipe

OPPONENT_PART: Final = "opponent"
START_PART: Final = "start"
REQUIRED_EQUAL_SIZES: Final = {
    OPPONENT_PART: ("planes",),
    START_PART: ("planes", "filters", "blocks", "hidden"),
}
"""Properties that a checkpoint must share with the run: games record what both players see, and
training continues from all of the start weights.
"""


def resolve_minigo_folder(run: Run) -> Path:
    """Return the user's folder, or the embedded one, which is written at first use."""
    return run.data or create_cached_folder(
        run.cache,
        f"minigo-positions-{embedded.EMBEDDED_POSITIONS_VERSION}",
        embedded.write_embedded_positions,
    )


def require_checkpoint_hashes(run: Run, recipe: MiniGoRecipe) -> dict[str, str]:
    """Return the hashes of the checkpoints that a run plays with. RequestError, before the clock
    starts, if one is missing or does not fit the run.
    """
    from workloads.minigo.survey import MiniGoDataSet

    surveyed: Any = run_request.resolve_data_survey(run, MiniGoDataSet)
    used = [
        part
        for part, requested in ((OPPONENT_PART, recipe.opponent), (START_PART, recipe.start))
        if requested == CHECKPOINT_PLAYER
    ]
    for part in used:
        folder = resolve_minigo_folder(run) / part
        if surveyed.get(part) is None:
            raise RequestError(
                f"{model.MINIGO_NAME}: {folder}: does not contain a checkpoint; the {part} must "
                "be a folder that `podium train` exported"
            )
        for name in REQUIRED_EQUAL_SIZES[part]:
            if surveyed[part][name] != (wanted := getattr(recipe, name)):
                raise RequestError(
                    f"checkpoint {folder}: its model.{name} is {surveyed[part][name]}, but the "
                    f"run's is {wanted}"
                )
    return {part: str(surveyed[part]["sha256"]) for part in used}


def load_opponent_network(run: Run, board: int) -> model.MiniGoNetwork:
    """Load the fixed opponent."""
    return model.load_minigo_checkpoint(resolve_minigo_folder(run) / OPPONENT_PART, board)


def load_start_network(run: Run, board: int) -> model.MiniGoNetwork:
    """Load the weights that a run starts from."""
    return model.load_minigo_checkpoint(resolve_minigo_folder(run) / START_PART, board)
