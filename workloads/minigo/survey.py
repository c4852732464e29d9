"""Surveys a folder of game records and checkpoints: plays every game, so that an illegal move is
named before any clock.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Final

import torch

from suite.dataset import StaleError, Survey
from suite.errors import RequestError
from suite.files.layout import folder_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.minigo import data, model
from workloads.minigo.positions.records import (
    CALIBRATION,
    GAMES,
    LABELS,
    check_labels,
    read_labels,
    read_records,
)
from workloads.minigo.recipe import board_of

VAL: Final = "val"
CHECKPOINTS: Final = (data.OPPONENT, data.START)
SHA256: Final = "sha256"


class MiniGoSet:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = (GAMES, LABELS, CALIBRATION, *CHECKPOINTS)

    def __init__(self, run: Run) -> None:
        self._run, self._board = run, board_of(run.settings)
        self.settings: Mapping[str, HyperValue] = {"board.size": self._board}

    @property
    def root(self) -> Path:
        """Give the user's folder, or the embedded one."""
        return data.folder_of(self._run)

    def survey(self) -> Survey:
        """Play all games, count the positions that are asked for, and look whose checkpoints there
        are.
        """
        root = self.root
        records = read_records(root / GAMES, self._board)
        labels = read_labels(root, records, self._board)
        if not labels:
            raise RequestError(f"{root / LABELS}: no positions")
        check_labels(root / LABELS, records, labels, self._board)
        count = len(labels)
        players = {
            part: player(root / part, self._board) for part in CHECKPOINTS if (root / part).exists()
        }
        folders = [part for part in self.parts if (root / part).is_dir()]
        return Survey(
            samples={VAL: count},
            sha256={part: folder_sha256(root / part) for part in folders},
            found={VAL: count, **players},
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Ask for another survey where an earlier podium's did not note whose checkpoints there
        are; training looks whether they fit (data.check_training).
        """
        if any(not isinstance(found.get(part, {}), Mapping) for part in CHECKPOINTS):
            raise StaleError(
                f"{self.root}: surveyed by an earlier podium, which did not note what its"
                " checkpoints are"
            )


def player(folder: Path, board: int) -> dict[str, Any]:
    """Describe a checkpoint that is to play, with its hash; RequestError where it is another
    board's, or its weights are no numbers.
    """
    network = model.load(folder, board)
    if broken := next(
        (name for name, tensor in network.state_dict().items() if not torch.isfinite(tensor).all()),
        None,
    ):
        raise RequestError(
            f"checkpoint {folder}: {broken} has values that are no numbers: this network cannot"
            " play"
        )
    return {**asdict(network.description), SHA256: folder_sha256(folder)}
