"""Mask R-CNN through ONNX Runtime: three networks exported; proposals, suppression and masks
outside them; the same detections.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.engines.torch import TorchEngine
from suite.engine import Network, Plan
from suite.workload import Run
from workloads.common import weights
from workloads.maskrcnn import model
from workloads.maskrcnn.agreement import agree
from workloads.maskrcnn.inference import MaskRCNNInference

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkpoint(
    make_network: Callable[[], model.MaskRCNNNetwork],
    described: model.MaskRCNNDescription,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    weights.write_exported_weights(make_network(), described, folder)
    return folder


class Both:
    """Runs each network in two engines on the same inputs, and notes how far their outputs are
    apart.
    """

    name = "both"
    accepts = frozenset({"torch"})

    def __init__(self) -> None:
        self.apart: dict[str, float] = {}

    def compile(self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]) -> Any:
        exported = OnnxRuntimeEngine().compile(network, plan)
        return Pair(self, network.name, TorchEngine().compile(network, plan), exported)


class Pair:
    """One network in both engines."""

    def __init__(self, both: Both, name: str, plain: Any, exported: Any) -> None:
        self.both, self.name, self.plain, self.exported = both, name, plain, exported

    def open(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        plain, exported = self.plain.open(), self.exported.open()

        def call(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            one, other = plain(*inputs), exported(*inputs)
            shares = [
                float((a - b).abs().max() / a.abs().max().clamp(min=1))
                for a, b in zip(one, other, strict=True)
            ]
            assert [tuple(each.shape) for each in one] == [tuple(each.shape) for each in other]
            self.both.apart[self.name] = max([*shares, self.both.apart.get(self.name, 0.0)])
            return tuple(tensor.clone() for tensor in other)

        return call


def test_each_network_gives_what_it_gives_in_torch(
    make_run: Callable[..., Run], checkpoint: Path
) -> None:
    """At every padded size, batch and number of regions that pictures bring: an export that knows
    one of them differs or fails.
    """
    both: Any = Both()
    system = MaskRCNNInference(make_run(batching__max_batch=2), checkpoint, both)
    system.load(range(3))
    predict = system.open(0, 2)
    predict.warm_up()
    answers = [predict([0, 1])[0], predict([2])[0]]
    assert (
        set(both.apart) == {"trunk", "box", "mask"}
        and max(both.apart.values()) < 1e-3
        and all(answers)
    )
    plain = MaskRCNNInference(make_run(batching__max_batch=2), checkpoint, TorchEngine())
    plain.load(range(3))
    assert agree(plain.open(0, 2)([0, 1])[0], answers[0])
    np.testing.assert_array_equal(
        np.frombuffer(answers[0][:4], "<i4"), np.frombuffer(plain.open(0, 2)([0, 1])[0][:4], "<i4")
    )
