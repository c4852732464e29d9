"""Mini-Go: a policy and value network that learns Go by playing itself (MLPerf Training v0.5 to
v2.1). Imports no framework.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from suite.dataset import DataSet
from suite.engine import Engine
from suite.rounds import HyperValue, Profile, Round
from suite.workload import Inference, Run, Training, Trial
from workloads.common.run_request import check_implemented


class MiniGo:
    """The benchmark's two halves, imported when they are used."""

    name: ClassVar[str] = "minigo"
    frameworks: ClassVar[frozenset[str]] = frozenset({"torch"})
    served_by: ClassVar[Mapping[str, tuple[str, ...]]] = {"torch": ("workloads.minigo.inference",)}

    def hyperparameters(
        self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Name the hyper-parameters as v0.7 logs have them."""
        from workloads.minigo import recipe

        return recipe.select_minigo_hyperparameters(settings)

    def training(self, run: Run) -> Training:
        """Build network, window and optimizer."""
        check_implemented(run, self.name)
        from workloads.minigo.training import MiniGoTraining

        return MiniGoTraining(run)

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        check_implemented(run, self.name)
        from workloads.minigo.inference import MiniGoInference

        return MiniGoInference(run, checkpoint, engine)

    def data_set(self, run: Run) -> DataSet:
        """Return the folder that a run reads, to be looked over."""
        from workloads.minigo.survey import MiniGoDataSet

        return MiniGoDataSet(run)

    def trial(self, framework: str, device: str) -> Trial:
        """Return a tiny network of its kind."""
        from workloads.minigo.trial import build_minigo_trial

        return build_minigo_trial(device)
