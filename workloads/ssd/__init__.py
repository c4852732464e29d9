"""SSD-ResNet34 on COCO; Liu et al. 2016, arXiv:1512.02325, at MLPerf's training size (300 px) and
serving size (1200 px). Imports no framework.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from suite import registry
from suite.dataset import DataSet
from suite.engine import Engine
from suite.rounds import HyperValue, Profile, Round
from suite.workload import Inference, Run, Training, Trial
from workloads.common.run_request import check_implemented
from workloads.ssd import recipe


class SSD:
    """The benchmark's training and inference halves, imported on use."""

    name: ClassVar[str] = "ssd"
    frameworks: ClassVar[frozenset[str]] = frozenset({"torch"})
    served_by: ClassVar[Mapping[str, tuple[str, ...]]] = {"torch": ("workloads.ssd.inference",)}
    trains_large_kernels: ClassVar[bool] = True

    def hyperparameters(
        self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Return the hyperparameters under their v0.7 log names."""
        return recipe.select_ssd_hyperparameters(settings)

    def training(self, run: Run) -> Training:
        """Build model, data and optimizer."""
        check_implemented(run, self.name, inputs=registry.list_entry_points(registry.INPUT_GROUP))
        from workloads.ssd.training import SSDTraining

        return SSDTraining(run)

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        check_implemented(run, self.name, inputs=registry.list_entry_points(registry.INPUT_GROUP))
        from workloads.ssd.inference import SSDInference

        return SSDInference(run, checkpoint, engine)

    def data_set(self, run: Run) -> DataSet:
        """Return the data folder that a run reads, for the data survey."""
        from workloads.ssd.survey import build_ssd_data_set

        return build_ssd_data_set(run)

    def trial(self, framework: str, device: str) -> Trial:
        """Return tiny networks of its kind; PyTorch is its only framework."""
        from workloads.ssd.trial import build_ssd_trial

        return build_ssd_trial(device)
