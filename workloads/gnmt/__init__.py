"""GNMT v2, recurrent translation from English to German; Wu et al. 2016, arXiv:1609.08144. Imports
no framework.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from suite.dataset import DataSet
from suite.engine import Engine
from suite.rounds import HyperValue, Profile, Round
from suite.workload import Inference, Run, Training, Trial
from workloads.common.run_request import check_implemented
from workloads.gnmt import recipe


class GNMT:
    """The benchmark's training and inference halves, imported on use."""

    name: ClassVar[str] = "gnmt"
    frameworks: ClassVar[frozenset[str]] = frozenset({"torch"})
    served_by: ClassVar[Mapping[str, tuple[str, ...]]] = {"torch": ("workloads.gnmt.inference",)}

    def hyperparameters(
        self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Return the hyperparameters under their v0.7 log names."""
        return recipe.select_gnmt_hyperparameters(settings)

    def training(self, run: Run) -> Training:
        """Build model, data and optimizer."""
        check_implemented(run, self.name)
        from workloads.gnmt.training import GNMTTraining

        return GNMTTraining(run)

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        check_implemented(run, self.name)
        from workloads.gnmt.inference import GNMTInference

        return GNMTInference(run, checkpoint, engine)

    def data_set(self, run: Run) -> DataSet:
        """Return the text that a run reads, for the data survey."""
        from workloads.gnmt.survey import GNMTDataSet

        return GNMTDataSet(run)

    def trial(self, framework: str, device: str) -> Trial:
        """Return tiny networks of its kind; PyTorch is its only framework."""
        from workloads.gnmt.trial import build_gnmt_trial

        return build_gnmt_trial(device)
