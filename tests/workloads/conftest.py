"""A tiny folder in ImageNet's layout, and runs on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite import registry
from suite.rounds import Profile
from suite.settings import settle
from suite.workload import Precision, Run
from workloads.resnet50 import embedded

CLASSES = ("circle", "cross", "star")
TINY = {"train": 8, "val": 4}


def write_tiny(root: Path) -> Path:
    """Three classes, eight pictures each to train on and four to evaluate on."""
    for split, count in TINY.items():
        for name in CLASSES:
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                picture = embedded.render(split, embedded.CLASSES.index(name), number)
                picture.save(folder / f"{name}_{number}.JPEG", "JPEG", quality=90)
    return root


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests read only."""
    return write_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def own_tiny(tmp_path: Path) -> Path:
    """A folder that a test may damage."""
    return write_tiny(tmp_path / "own")


@pytest.fixture
def make_run(tiny: Path, tmp_path: Path) -> Callable[..., Run]:
    """Make a run of the smoke profile on the tiny folder; settings by keyword with `__` for a dot."""

    def make(
        data: Path | None = tiny,
        seed: int = 7,
        precision: Precision = Precision.FP32,
        profile: Profile = Profile.SMOKE,
        **settings: Any,
    ) -> Run:
        round = registry.round()
        chosen = {"global_batch_size": 8, "model_bn_span": 4, "data.workers": 0}
        chosen |= {key.replace("__", "."): value for key, value in settings.items()}
        return Run(
            round=round,
            profile=profile,
            seed=seed,
            data=data,
            cache=tmp_path / "cache",
            framework="torch",
            input="default",
            device="cpu",
            precision=precision,
            threads=1,
            settings=settle(round, "resnet50", profile, chosen),
        )

    return make
