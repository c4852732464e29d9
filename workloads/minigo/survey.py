"""Surveys a folder of game records and checkpoints: replays every game, so that illegal moves are
reported before any clock starts.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Final

import torch

from suite.dataset import StaleError, Survey
from suite.errors import RequestError
from suite.files.foreign_names import is_foreign_name
from suite.files.layout import compute_folder_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.data_messages import format_left_out_names
from workloads.minigo import data, model
from workloads.minigo.positions.records import (
    CALIBRATION_FOLDER,
    GAMES_FOLDER,
    POSITION_LABELS_FILE,
    check_position_labels,
    read_game_records,
    read_position_labels,
)
from workloads.minigo.recipe import require_board_side

POSITIONS_SPLIT: Final = "val"
CHECKPOINT_PARTS: Final = (data.OPPONENT_PART, data.START_PART)
CHECKPOINT_HASH_KEY: Final = "sha256"


class MiniGoDataSet:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = (GAMES_FOLDER, POSITION_LABELS_FILE, CALIBRATION_FOLDER, *CHECKPOINT_PARTS)

    def __init__(self, run: Run) -> None:
        self._run, self._board = run, require_board_side(run.settings)
        self.settings: Mapping[str, HyperValue] = {"board.size": self._board}

    @property
    def root(self) -> Path:
        """Return the user's folder, or the embedded one."""
        return data.resolve_minigo_folder(self._run)

    def survey(self) -> Survey:
        """Replay all games, count the requested positions, and describe the checkpoints."""
        root = self.root
        records = read_game_records(root / GAMES_FOLDER, self._board)
        labels = read_position_labels(root, records, self._board)
        if not labels:
            raise RequestError(f"{root / POSITION_LABELS_FILE}: no positions")
        check_position_labels(root / POSITION_LABELS_FILE, records, labels, self._board)
        count = len(labels)
        players = {
            part: describe_player_checkpoint(root / part, self._board)
            for part in CHECKPOINT_PARTS
            if (root / part).exists()
        }
        folders = [part for part in self.parts if (root / part).is_dir()]
        left_out = format_left_out_names(
            entry.name
            for part in (GAMES_FOLDER, CALIBRATION_FOLDER)
            if part in folders
            for entry in (root / part).iterdir()
            if is_foreign_name(entry.name)
        )
        return Survey(
            samples={POSITIONS_SPLIT: count},
            sha256={part: compute_folder_sha256(root / part) for part in folders},
            found={POSITIONS_SPLIT: count, **players},
            remarks=[left_out] if left_out else (),
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Raise StaleError if the survey of an older podium does not describe the checkpoints.
        Training checks that they fit (data.require_checkpoint_hashes).
        """
        if any(not isinstance(found.get(part, {}), Mapping) for part in CHECKPOINT_PARTS):
            raise StaleError(
                f"{self.root}: surveyed by an older podium, which did not describe the checkpoints"
            )


def describe_player_checkpoint(folder: Path, board: int) -> dict[str, Any]:
    """Describe a checkpoint that is to play, with its hash; RequestError if it is for another
    board, or its weights are not finite.
    """
    network = model.load_minigo_checkpoint(folder, board)
    if broken := next(
        (name for name, tensor in network.state_dict().items() if not torch.isfinite(tensor).all()),
        None,
    ):
        raise RequestError(
            f"checkpoint {folder}: {broken} contains values that are not finite, so this network "
            "cannot play"
        )
    return {**asdict(network.description), CHECKPOINT_HASH_KEY: compute_folder_sha256(folder)}
