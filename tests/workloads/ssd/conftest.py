"""Small scenes in COCO's layout, and runs of the smoke profile on them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import a_run
from tiny_scenes import TINY

from suite.engine import Call, Executable, Network, Plan
from suite.workload import Precision, Run
from workloads.common.detection import synthetic_scenes


class PlainEngine:
    """The least that an engine can be; remembers what it was given."""

    name = "plain"
    accepts = frozenset({"torch"})

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def missing(self, device: str, precision: Precision) -> str | None:
        return None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        self.network, self.plan = network, plan
        return self

    def open(self) -> Call[Any]:
        return self

    def describe(self) -> dict[str, Any]:
        return {}

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        assert inputs[0].is_contiguous()
        self.sizes.append(len(inputs[0]))
        found: tuple[torch.Tensor, ...] = self.network.module(*inputs)
        return found


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests read only."""
    return synthetic_scenes.prepare_scene_folder(tmp_path_factory.mktemp("tiny"), TINY)


@pytest.fixture(scope="session")
def make_with(tiny: Path) -> Callable[..., Run]:
    """Make a run on the tiny folder, with a cache; settings by keyword with `__` for a dot."""

    def make(cache: Path, data: Path | None = tiny, **asked: Any) -> Run:
        return a_run(
            "ssd",
            data,
            cache,
            {"global_batch_size": 4, "model_bn_span": 4, "data.workers": 0},
            **asked,
        )

    return make


@pytest.fixture
def make_run(make_with: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """Make one with a cache of its own."""
    return partial(make_with, tmp_path / "cache")


@pytest.fixture
def engine() -> PlainEngine:
    """An engine that notes what it is given."""
    return PlainEngine()
