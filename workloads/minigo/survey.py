"""Surveys a folder of game records and checkpoints: plays every game, so that an illegal move is named before any clock."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from suite.dataset import Survey
from suite.errors import RequestError
from suite.files.layout import folder_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.minigo import data, model
from workloads.minigo.positions.records import CALIBRATION, GAMES, LABELS, read_labels, read_records
from workloads.minigo.recipe import board_of

VAL: Final = "val"
CHECKPOINTS: Final = (data.OPPONENT, data.START)


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
        """Play all games, count the positions that are asked for, and look whose checkpoints there are."""
        root = self.root
        count = len(read_labels(root, read_records(root / GAMES, self._board), self._board))
        if not count:
            raise RequestError(f"{root / LABELS}: no positions")
        boards = {part: model.load(root / part, self._board).description.board for part in CHECKPOINTS if (root / part).exists()}
        folders = [part for part in self.parts if (root / part).is_dir()]
        return Survey(samples={VAL: count}, sha256={part: folder_sha256(root / part) for part in folders}, found={VAL: count, **boards})

    def check(self, found: Mapping[str, Any]) -> None:
        """Nothing hangs on the run's other settings but what training looks at itself (data.check_training)."""
