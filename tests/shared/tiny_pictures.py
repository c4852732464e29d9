"""A tiny folder in ImageNet's layout, and runs of ResNet-50 on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testbed import a_run

from suite.workload import Run
from workloads.resnet50.images import embedded

CLASSES = ("circle", "cross", "star")
TINY = {"train": 8, "val": 4}


def write_tiny(root: Path) -> Path:
    """Pictures of three of the embedded classes under names of their own, eight each to train on
    and four to evaluate on.
    """
    for split, count in TINY.items():
        for label, name in enumerate(CLASSES):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                picture = embedded.draw_embedded_image(split, label, number)
                picture.save(folder / f"{name}_{number}.JPEG", "JPEG", quality=90)
    return root


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests read only."""
    return write_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def make_run(tiny: Path, tmp_path: Path) -> Callable[..., Run]:
    """Make a run of the smoke profile on the tiny folder; settings by keyword with `__` for a
    dot.
    """

    def make(data: Path | None = tiny, **asked: Any) -> Run:
        return a_run(
            "resnet50",
            data,
            tmp_path / "cache",
            {"global_batch_size": 8, "model_bn_span": 4, "data.workers": 0},
            **asked,
        )

    return make
