"""What workloads are tested with: tiny pictures, embedded data of a few samples, two ranks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from few_samples import draw_few
from testbed import TwoRanks
from tiny_pictures import make_run, tiny, write_tiny

from workloads.resnet50 import data as resnet50

__all__ = ["make_run", "tiny"]


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
