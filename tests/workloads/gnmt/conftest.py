"""A tiny parallel text, and runs on it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from testbed import PlainEngine, a_run

from suite.workload import Run
from workloads.common.text import synthetic_language

TRAIN, TEST = 120, 10
SMALL = {
    "model.layers": 3,
    "model.width": 16,
    "global_batch_size": 8,
    "data.merges": 10,
    "data.workers": 0,
}
SMALL |= {"data.max_answer_length": 60, "max_sequence_length": 120}


def write_tiny(root: Path) -> Path:
    """A hundred and twenty pairs to train on and ten to evaluate on."""
    synthetic_language.write_synthetic_text(
        replace(synthetic_language.NEAR_LANGUAGE, train=TRAIN, test=TEST), root
    )
    return root


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests read only."""
    return write_tiny(tmp_path_factory.mktemp("text") / "data")


@pytest.fixture
def own_text(tmp_path: Path) -> Path:
    """A folder that a test may damage."""
    return write_tiny(tmp_path / "own")


@pytest.fixture(scope="session")
def text_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Encoded text, which runs on the same text share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def make_run(tiny_text: Path, text_cache: Path) -> Callable[..., Run]:
    """Make a run of the smoke profile on the tiny text; settings by keyword with `__` for a dot."""

    def make(data: Path | None = tiny_text, cache: Path = text_cache, **asked: Any) -> Run:
        return a_run("gnmt", data, cache, SMALL, **asked)

    return make


@pytest.fixture
def engine() -> PlainEngine:
    """An engine that notes what it is given."""
    return PlainEngine()
