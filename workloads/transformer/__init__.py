"""The Transformer (big) on WMT English-German; Vaswani et al. 2017, arXiv:1706.03762. Imports no
framework.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final

from suite.dataset import DataSet
from suite.engine import Engine
from suite.errors import MissingError
from suite.process.installation import RUN_EXTRA, format_install_command
from suite.rounds import HyperValue, Profile, Round
from suite.workload import Inference, Run, Training, Trial
from workloads.common.run_request import check_implemented
from workloads.transformer import recipe

FRAMEWORK_PACKAGES: Final = {
    "torch": "workloads.transformer",
    "tensorflow": "workloads.transformer.tensorflow",
}
"""Framework -> the package that holds its model, training and inference."""


class Transformer:
    """The benchmark's training and inference halves in two frameworks, imported on use."""

    name: ClassVar[str] = "transformer"
    frameworks: ClassVar[frozenset[str]] = frozenset(FRAMEWORK_PACKAGES)
    served_by: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "torch": ("workloads.transformer.inference",)
    }

    def hyperparameters(
        self, round: Round, profile: Profile, settings: Mapping[str, HyperValue]
    ) -> Mapping[str, HyperValue]:
        """Return the hyperparameters under their v0.7 log names."""
        return recipe.select_transformer_hyperparameters(settings)

    def training(self, run: Run) -> Training:
        """Build model, data and optimizer."""
        made: Training = self._import_framework_module(run, "training").TransformerTraining(run)
        return made

    def inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        made: Inference = self._import_framework_module(run, "inference").TransformerInference(
            run, checkpoint, engine
        )
        return made

    def data_set(self, run: Run) -> DataSet:
        """Return the text that a run reads, for the data survey."""
        from workloads.transformer.survey import TransformerDataSet

        return TransformerDataSet(run)

    def trial(self, framework: str, device: str) -> Trial:
        """Return tiny networks of its kind."""
        made: Trial = import_module(f"{FRAMEWORK_PACKAGES[framework]}.trial").trial(device)
        return made

    def _import_framework_module(self, run: Run, half: str) -> Any:
        check_implemented(run, self.name, self.frameworks)
        if find_spec(run.framework) is None:
            extra = RUN_EXTRA if run.framework == "torch" else run.framework
            raise MissingError(
                f"{self.name}: {run.framework} is not installed: {format_install_command(extra)}"
            )
        return import_module(f"{FRAMEWORK_PACKAGES[run.framework]}.{half}")
