"""A little parallel text, and runs of the Transformer on it with a tiny network."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from testbed import a_run

from suite.workload import Run
from workloads.common.text import synthetic_language

SMALL = replace(synthetic_language.NEAR_LANGUAGE, train=48, test=12)
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
    synthetic_language.write_synthetic_text(SMALL, root)
    return root


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests read only."""
    return write_small(tmp_path_factory.mktemp("pair") / "small")


@pytest.fixture(scope="session")
def make_with(small: Path) -> Callable[..., Run]:
    """Make a run of the smoke profile on the little text, with a cache; settings by keyword with
    `__` for a dot.
    """

    def make(cache: Path, data: Path | None = small, **asked: Any) -> Run:
        return a_run("transformer", data, cache, TINY, **asked)

    return make


@pytest.fixture
def make_run(make_with: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """Make one with a cache of its own."""
    return partial(make_with, tmp_path / "cache")
