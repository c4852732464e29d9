"""A results folder with a checkpoint of llama."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from podium_fakes.kept import keep_ceiling
from podium_fakes.measuring import keep_llama


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A results folder with a checkpoint, and a cache of its own."""
    keep_llama(tmp_path / "results")
    keep_ceiling(tmp_path / "cache")
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "results"
