"""ResNet-50 in two frameworks: one set of weights, the same logits and answers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_pictures import make_run, tiny

from suite.engine import Plan, Precision
from suite.errors import RequestError
from suite.workload import Run
from workloads.common import weights
from workloads.resnet50 import WORKLOAD
from workloads.resnet50 import model as torch_model
from workloads.resnet50.inference import ResNet50Inference as TorchInference

tf = pytest.importorskip(
    "tensorflow",
    reason="TensorFlow is not installed: podium-suite[tensorflow]",
    exc_type=ImportError,
)

from extras.tensorflow.engine import TensorFlowEngine  # noqa: E402
from extras.tensorflow.resnet50.inference import (  # noqa: E402
    ResNet50Inference,
    TensorFlowTensors,
)
from extras.tensorflow.resnet50.model import convert_resnet50_weights  # noqa: E402
from harness.engines.torch import TorchEngine  # noqa: E402

__all__ = ["make_run", "tiny"]

pytestmark = pytest.mark.slow
MakeRun = Callable[..., Run]
TOLERANCE = 1e-4
"""Of the largest logit."""


def lively(classes: int) -> torch.nn.Module:
    """Make a network whose batch-norm has statistics of its own: those of a fresh one are 0 and 1,
    and hide what is exchanged.
    """
    torch.manual_seed(1)
    network = torch_model.build_resnet50(classes).eval()
    for part in network.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
            torch.nn.init.uniform_(part.weight, 0.2, 0.8)
            torch.nn.init.normal_(part.bias, std=0.1)
    return network


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    weights.write_exported_weights(
        lively(3),
        torch_model.ResNet50Description(
            workload="resnet50", classes=("circle", "cross", "star"), picture_size=32
        ),
        folder,
    )
    return folder


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    return replace(make_run(batching__max_batch=4), framework="tensorflow")


@pytest.mark.parametrize("side", [32, 37])
def test_the_same_weights_give_the_same_logits(side: int) -> None:
    """Padding at every stride of 2, on even and odd sizes: TensorFlow's own SAME moves the pictures
    by a pixel.
    """
    network, picture_NCHW = (
        lively(12),
        torch.randn(3, 3, side, side, generator=torch.Generator().manual_seed(2)),
    )
    with torch.inference_mode():
        expected_NK = network(picture_NCHW).numpy()
    found_NK = (
        TensorFlowTensors()
        .convert_network(network)(tf.constant(picture_NCHW.permute(0, 2, 3, 1).numpy()))
        .numpy()
    )
    assert np.abs(found_NK - expected_NK).max() < TOLERANCE * np.abs(expected_NK).max()


@pytest.mark.parametrize("compiled", [False, True])
def test_what_the_engine_serves_gives_the_same_logits(
    run: Run, checkpoint: Path, compiled: bool
) -> None:
    """As a SavedModel with weights for constants, and through XLA."""
    own = replace(run, settings={**run.settings, "engine.compile": compiled})
    served, network = (
        ResNet50Inference(own, checkpoint, TensorFlowEngine()),
        torch_model.load_resnet50_checkpoint(checkpoint)[0],
    )
    picture_NCHW = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    (found_NK,) = served._executable.open()(tf.constant(picture_NCHW.permute(0, 2, 3, 1).numpy()))
    with torch.inference_mode():
        expected_NK = network(picture_NCHW).numpy()
    assert np.abs(found_NK.numpy() - expected_NK).max() < TOLERANCE * np.abs(expected_NK).max()
    assert served._executable.describe()["compiled"] is compiled


def test_a_checkpoint_of_pytorch_gets_the_same_answers(
    run: Run, make_run: MakeRun, checkpoint: Path
) -> None:
    """The same pictures, prepared once; batches that are not full too."""
    systems: list[Any] = [
        ResNet50Inference(run, checkpoint, TensorFlowEngine()),
        TorchInference(make_run(), checkpoint, TorchEngine()),
    ]
    for system in systems:
        system.load(range(12))
    for sample in range(
        12
    ):  # a random network answers with few classes: pictures are held against one another too
        assert np.array_equal(
            systems[0]._held[sample].numpy(), systems[1]._held[sample].permute(1, 2, 0).numpy()
        )
    first, second = (
        [*predict([3, 1, 2, 0]), *predict([7])]
        for predict in (system.open(0, 4) for system in systems)
    )
    assert first == second


class Keen:
    """An engine that keeps what it was told."""

    name, accepts = "keen", frozenset({"tensorflow"})

    def compile(self, network: Any, plan: Plan[Any]) -> Any:
        self.network, self.plan = network, plan
        return self


def test_the_engine_is_told_pictures_with_channels_last(run: Run, checkpoint: Path) -> None:
    """Shapes in PyTorch's order would be prepared for, and never come."""
    engine = Keen()
    made = WORKLOAD.build_inference(run, checkpoint, engine)  # type: ignore[arg-type]
    assert isinstance(made, ResNet50Inference)
    assert (engine.network.framework, engine.plan.precision) == ("tensorflow", Precision.FP32)
    assert (tuple(engine.network.inputs[0].shape), engine.network.shapes.maximum) == (
        (1, 32, 32, 3),
        ((4, 32, 32, 3),),
    )


def test_every_weight_is_carried_over_but_the_counters() -> None:
    """One that is left out would be found as a KeyError by somebody else."""
    state = {
        name: value.numpy() for name, value in torch_model.build_resnet50(3).state_dict().items()
    }
    carried = convert_resnet50_weights(state)
    assert set(state) - set(carried) == {
        name for name in state if name.endswith("num_batches_tracked")
    }
    assert (carried["conv1.weight"].shape, carried["fc.weight"].shape) == ((7, 7, 3, 64), (2048, 3))


def test_it_is_trained_in_pytorch(run: Run) -> None:
    """Said before any data is made."""
    with pytest.raises(RequestError, match="tensorflow"):
        WORKLOAD.build_training(run)
