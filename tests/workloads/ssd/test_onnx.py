"""SSD through ONNX Runtime: the network exported, decoding and suppression outside it, the same
detections; and in INT8.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from testbed import a_run

from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.engines.torch import TorchEngine
from suite.terms import Precision
from suite.workload import Run
from workloads.common import weights
from workloads.common.detection import coco
from workloads.ssd import model
from workloads.ssd.inference import SSDInference

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkpoint(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(1)
    network = model.build_ssd("64", 4)
    with torch.no_grad():
        for head in network.kinds:
            head.weight.mul_(
                0.02
            )  # an untrained network is sure of everything, and sums decide between equals
    weights.write_exported_weights(
        network,
        model.SSDDescription(
            workload="ssd",
            configuration="64",
            categories=coco.read_coco_split(tiny, "val").categories,
        ),
        folder,
    )
    return folder


class Noting:
    """An engine that notes what its network gives."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.name, self.accepts, self.missing = (
            engine,
            engine.name,
            engine.accepts,
            engine.missing,
        )

    def compile(self, network: Any, plan: Any) -> "Noting":
        self.built = self.engine.compile(network, plan)
        return self

    def open(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        call = self.built.open()

        def noting(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            found = call(*inputs)
            self.given = tuple(tensor.clone() for tensor in found)
            return found

        return noting


def outputs(run: Run, checkpoint: Path, engine: Any) -> tuple[torch.Tensor, ...]:
    """What the network gives for two pictures, before anything is decoded."""
    noting: Any = Noting(engine)
    system = SSDInference(run, checkpoint, noting)
    system.load(range(2))
    assert len(system.open(0, 2)([0, 1])) == 2
    system.close()
    return noting.given


@pytest.fixture(scope="module")
def make_run(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Make runs with one cache, so that the network is exported once for all."""
    cache = tmp_path_factory.mktemp("cache")

    def make(**asked: Any) -> Run:
        return a_run("ssd", tiny, cache, {"data.workers": 0}, **asked)

    return make


@pytest.fixture(scope="module")
def exported(make_run: Callable[..., Run], checkpoint: Path) -> tuple[torch.Tensor, ...]:
    """What the exported network gives."""
    return outputs(make_run(), checkpoint, OnnxRuntimeEngine())


def test_boxes_and_classes_are_those_of_the_torch_engine(
    make_run: Callable[..., Run], checkpoint: Path, exported: tuple[torch.Tensor, ...]
) -> None:
    for one, other in zip(outputs(make_run(), checkpoint, TorchEngine()), exported, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-3, atol=1e-3)


def test_int8_takes_its_ranges_from_listed_scenes(
    make_run: Callable[..., Run],
    checkpoint: Path,
    exported: tuple[torch.Tensor, ...],
    tmp_path: Path,
) -> None:
    """Within what quantisation of an untrained network costs: a network that is lost altogether is
    off by all of it.
    """
    listed = tmp_path / "some.txt"
    listed.write_text("".join(f"train2017/{number:012d}.jpg\n" for number in range(1, 9)))
    lowered = outputs(
        make_run(precision=Precision.INT8, calibration__list=str(listed)),
        checkpoint,
        OnnxRuntimeEngine(),
    )
    for one, other in zip(exported, lowered, strict=True):
        assert float((one - other).abs().mean()) < 0.2 * float((one - one.mean()).abs().mean())
