"""Mask R-CNN with ResNet-50 and a feature pyramid on COCO; He et al. 2017, arXiv:1703.06870.
Imports no framework.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from suite.dataset import DataSet
from suite.engine import Engine
from suite.rounds import HyperValue, Profile, Round
from suite.workload import Inference, Run, Training, Trial
from workloads.common.run_request import check_implemented
from workloads.maskrcnn import recipe


class MaskRCNN:
    """The benchmark's training and inference halves, imported on use."""

    name: ClassVar[str] = "maskrcnn"
    frameworks: ClassVar[frozenset[str]] = frozenset({"torch"})
    served_by: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "torch": ("workloads.maskrcnn.inference",)
    }
    trains_large_kernels: ClassVar[bool] = True

    def hyperparameters(
        self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Return the hyperparameters under their v0.7 log names."""
        return recipe.select_maskrcnn_hyperparameters(settings)

    def training(self, run: Run) -> Training:
        """Build model, data and optimizer."""
        check_implemented(run, self.name)
        from workloads.maskrcnn.training import MaskRCNNTraining

        return MaskRCNNTraining(run)

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        check_implemented(run, self.name)
        from workloads.maskrcnn.inference import MaskRCNNInference

        return MaskRCNNInference(run, checkpoint, engine)

    def data_set(self, run: Run) -> DataSet:
        """Return the data folder that a run reads, for the data survey."""
        from workloads.maskrcnn.survey import build_maskrcnn_data_set

        return build_maskrcnn_data_set(run)

    def trial(self, framework: str, device: str) -> Trial:
        """Return tiny networks of its kind; PyTorch is its only framework."""
        from workloads.maskrcnn.trial import build_maskrcnn_trial

        return build_maskrcnn_trial(device)
