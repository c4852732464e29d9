"""Tiny scenes in COCO's layout, and runs on them."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from testbed import a_run

from suite.engine import Network, Plan
from suite.workload import Precision, Run
from workloads.common.detection import synthetic_scenes
from workloads.maskrcnn import data, model

TINY = replace(
    data.MASKRCNN_SCENES,
    pictures={"train": 7, "val": 3},
    extents=((64, 64), (64, 48), (48, 64)),
    empty_share=0.0,
    crowd_share=0.5,
)
SMALL = {
    "min_image_size": 64,
    "max_image_size": 64,
    "data.workers": 0,
    "data.micro_batch": 2,
    "rpn.candidates_train": 40,
    "rpn.candidates_test": 20,
}
FEW = model.RegionCounts(
    anchors=32,
    before_train=40,
    before_test=20,
    after_train=80,
    after_test=20,
    regions=16,
    detections=5,
    inside_only=False,
)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests read only."""
    return synthetic_scenes.prepare_scene_folder(tmp_path_factory.mktemp("tiny"), TINY)


@pytest.fixture(scope="session")
def make_with(tiny: Path) -> Callable[..., Run]:
    """Make a run of the smoke profile on the tiny folder, with a cache; settings by keyword with
    `__` for a dot.
    """

    def make(cache: Path, data: Path | None = tiny, **asked: Any) -> Run:
        return a_run("maskrcnn", data, cache, SMALL | {"roi.detections": 5}, **asked)

    return make


@pytest.fixture
def make_run(make_with: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """Make one with a cache of its own."""
    return partial(make_with, tmp_path / "cache")


@pytest.fixture(scope="session")
def described() -> model.MaskRCNNDescription:
    """What the tiny network is."""
    return model.MaskRCNNDescription(
        workload="maskrcnn",
        classes=TINY.classes,
        min_size=64,
        max_size=64,
        anchor_sizes=(8, 16, 32, 64, 128),
        frozen_norm=False,
    )


@pytest.fixture(scope="session")
def make_network(described: model.MaskRCNNDescription) -> Callable[[], model.MaskRCNNNetwork]:
    """Make a network of full width and depth, its box scores spread so that something is detected;
    weights are drawn once, which takes longest.
    """
    torch.manual_seed(3)
    made = model.MaskRCNNNetwork(described, FEW)
    predictor: Any = made.roi_heads.box_predictor
    torch.nn.init.normal_(predictor.cls_score.weight, std=0.5)

    def make() -> model.MaskRCNNNetwork:
        torch.manual_seed(3)
        return deepcopy(made)

    return make


@pytest.fixture
def network(make_network: Callable[[], model.MaskRCNNNetwork]) -> model.MaskRCNNNetwork:
    """Give a network that the test may change."""
    return make_network()


@pytest.fixture(scope="session")
def few() -> model.RegionCounts:
    """How many regions the tiny network looks at."""
    return FEW


class PlainEngine:
    """Runs modules as they are; remembers what it was given."""

    name = "plain"
    accepts = frozenset({"torch"})

    def __init__(self) -> None:
        self.networks: dict[str, Network[Any]] = {}
        self.shapes: list[tuple[str, tuple[int, ...]]] = []

    def missing(self, device: str, precision: Precision) -> str | None:
        return None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Any:
        self.networks[network.name] = network
        return PlainExecutable(self, network)


class PlainExecutable:
    """A module, called under its network's name."""

    def __init__(self, engine: PlainEngine, network: Network[Any]) -> None:
        self.engine, self.network = engine, network

    def open(self) -> Any:
        module = self.network.module.eval()

        def call(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            assert all(each.is_contiguous() for each in inputs)
            self.engine.shapes.append((self.network.name, tuple(inputs[0].shape)))
            found = module(*inputs)
            return found if isinstance(found, tuple) else (found,)

        return call

    def describe(self) -> dict[str, Any]:
        return {}


@pytest.fixture
def engine() -> PlainEngine:
    return PlainEngine()


BLOCKS = {2: 3, 3: 4, 4: 6, 5: 3}
LAYERS = {
    "downsample.0.weight": "branch1_w",
    "downsample.1.weight": "branch1_bn_s",
    "downsample.1.bias": "branch1_bn_b",
} | {
    f"{kind}{number}.{end}": f"branch2{letter}{blob}"
    for number, letter in ((1, "a"), (2, "b"), (3, "c"))
    for kind, end, blob in (
        ("conv", "weight", "_w"),
        ("bn", "weight", "_bn_s"),
        ("bn", "bias", "_bn_b"),
    )
}


def blobs(body: Any) -> dict[str, Any]:
    """Name every weight as Caffe2 does, with some of the classifier's beside them."""
    random = np.random.default_rng(1)
    state = body.state_dict()
    found = {
        "conv1_w": state["conv1.weight"],
        "res_conv1_bn_s": state["bn1.weight"],
        "res_conv1_bn_b": state["bn1.bias"],
    }
    for stage, count in BLOCKS.items():
        for block in range(count):
            for ours, theirs in LAYERS.items():
                name = f"layer{stage - 1}.{block}.{ours}"
                if name in state:
                    found[f"res{stage}_{block}_{theirs}"] = state[name]
    made: dict[str, Any] = {
        name: random.standard_normal(tuple(value.shape), dtype=np.float32)
        for name, value in found.items()
    }
    return made | {"fc1000_w": np.zeros((10, 5)), "conv1_b": np.zeros(64, dtype=np.float32)}


@pytest.fixture(scope="session")
def blobs_of() -> Callable[[Any], dict[str, Any]]:
    """Give what makes Caffe2's blobs of a ResNet-50."""
    return blobs
