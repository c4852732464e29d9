"""A little parallel text, and runs on it with a tiny network."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite import registry
from suite.rounds import Profile
from suite.settings import settle
from suite.workload import Precision, Run
from workloads.common import language
from workloads.common.parallel_text import Corpus

SMALL = replace(language.NEAR, train=48, test=12)
TINY = {
    "model.layers": 2,
    "model.width": 16,
    "model.filter": 32,
    "model.heads": 2,
    "model.dropout": 0.0,
    "data.vocabulary": 200,
    "global_batch_size": 200,
    "decode.extra_length": 4,
    "batching.max_batch": 4,
}


def write_small(root: Path) -> Path:
    """Forty-eight pairs to train on and twelve to evaluate on."""
    language.write(SMALL, root)
    return root


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests read only."""
    return write_small(tmp_path_factory.mktemp("pair") / "small")


@pytest.fixture
def own_small(tmp_path: Path) -> Path:
    """A folder that a test may damage."""
    return write_small(tmp_path / "own")


@pytest.fixture
def corpora() -> tuple[Corpus, Corpus]:
    """The same text, in memory."""
    return language.corpora(SMALL)


@pytest.fixture
def make_run(small: Path, tmp_path: Path) -> Callable[..., Run]:
    """Make a run of the smoke profile on the little text; settings by keyword with `__` for a dot."""

    def make(data: Path | None = small, seed: int = 7, precision: Precision = Precision.FP32, profile: Profile = Profile.SMOKE, **settings: Any) -> Run:
        round = registry.round()
        chosen = TINY | {key.replace("__", "."): value for key, value in settings.items()}
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
            settings=settle(round, "transformer", profile, chosen),
        )

    return make


