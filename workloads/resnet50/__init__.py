"""ResNet-50 v1.5 on ImageNet; He et al. 2015, arXiv:1512.03385, with the stride in the 3x3
convolution. Imports no framework.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from suite import registry
from suite.dataset import DataSet
from suite.engine import Engine
from suite.rounds import HyperValue, Profile, Round
from suite.workload import Inference, Run, Training, Trial
from workloads.common.run_request import check_implemented
from workloads.resnet50 import recipe

RESNET50_SERVING_MODULES: Final = {
    "torch": "workloads.resnet50.inference",
    "tensorflow": "workloads.resnet50.tensorflow.inference",
}
"""Framework -> its serving module; training is in PyTorch only."""
RESNET50_TRIAL_MODULES: Final = {
    "torch": "workloads.resnet50.trial",
    "tensorflow": "workloads.resnet50.tensorflow.trial",
}


class ResNet50:
    """The benchmark's training and inference halves, imported on use."""

    name: ClassVar[str] = "resnet50"
    frameworks: ClassVar[frozenset[str]] = frozenset(RESNET50_SERVING_MODULES)
    served_by: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "torch": (RESNET50_SERVING_MODULES["torch"],)
    }

    def hyperparameters(
        self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Return the hyperparameters under their v0.7 log names."""
        return recipe.select_resnet50_hyperparameters(settings)

    def training(self, run: Run) -> Training:
        """Build model, data and optimizer."""
        check_implemented(run, self.name, inputs=registry.list_entry_points(registry.INPUT_GROUP))
        from workloads.resnet50.training import ResNet50Training

        return ResNet50Training(run)

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        check_implemented(
            run,
            self.name,
            RESNET50_SERVING_MODULES,
            inputs=registry.list_entry_points(registry.INPUT_GROUP),
        )
        made: Inference = import_module(RESNET50_SERVING_MODULES[run.framework]).ResNet50Inference(
            run, checkpoint, engine
        )
        return made

    def data_set(self, run: Run) -> DataSet:
        """Return the data folder that a run reads, for the data survey."""
        from workloads.resnet50.survey import ImageNetDataSet

        return ImageNetDataSet(run)

    def trial(self, framework: str, device: str) -> Trial:
        """Return tiny networks of its kind."""
        made: Trial = import_module(RESNET50_TRIAL_MODULES[framework]).trial(device)
        return made
