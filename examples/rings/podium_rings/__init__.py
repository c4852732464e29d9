"""A workload in a package of its own. Imports no framework: its parts do, on use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from suite.engine import Engine
from suite.rounds import HyperValue, Profile, Round
from suite.workload import Inference, Run, Training


class Rings:
    """The workload, with its parts."""

    name: ClassVar[str] = "rings"
    served_by: ClassVar[Mapping[str, tuple[str, ...]]] = {"torch": ("podium_rings.inference",)}

    def hyperparameters(
        self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Return the settings that the row requires in the log."""
        return {
            key: settings[key]
            for key, setting in round.benchmark(self.name).settings.items()
            if setting.log
        }

    def training(self, run: Run) -> Training:
        """Build data, model and optimizer."""
        from podium_rings.training import RingsTraining

        return RingsTraining(run)

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        from podium_rings.inference import RingsInference

        return RingsInference(run, checkpoint, engine)
