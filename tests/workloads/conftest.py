"""A tiny folder in ImageNet's layout, and runs on it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from few_samples import draw_few

from suite.workload import Run
from workloads.resnet50 import data as resnet50
from workloads.resnet50.images import embedded

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(
        0, str(Path(__file__).parent)
    )  # testbed.py lies there, and children of its ranks import it

from testbed import TwoRanks, a_run  # noqa: E402

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


@pytest.fixture(scope="session")
def embedded_pictures(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """ResNet-50's whole set as a user gets it, read only; all processes that test share it, as
    processes that train share a cache.
    """
    own = tmp_path_factory.getbasetemp()
    return resnet50.prepare_embedded_image_folder(
        (own if worker_id == "master" else own.parent) / "embedded_pictures"
    )


@pytest.fixture(scope="session")
def in_two_ranks() -> Iterator[TwoRanks]:
    """Two processes that train together, for one case at a time."""
    ranks = TwoRanks()
    yield ranks
    ranks.end()


@pytest.fixture
def own_tiny(tmp_path: Path) -> Path:
    """A folder that a test may damage."""
    return write_tiny(tmp_path / "own")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Embedded data of a few samples for every workload, in a cache of their own."""
    draw_few(monkeypatch, tmp_path / "cache")
    return tmp_path


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
