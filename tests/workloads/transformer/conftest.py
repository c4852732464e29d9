"""A little parallel text, and an engine that notes what it is given."""

from pathlib import Path

import pytest
from small_texts import SMALL, make_run, make_with, small, write_small
from testbed import PlainEngine

from workloads.common.text import synthetic_language
from workloads.common.text.parallel_text import ParallelCorpus

__all__ = ["make_run", "make_with", "small"]


@pytest.fixture
def own_small(tmp_path: Path) -> Path:
    """A folder that a test may damage."""
    return write_small(tmp_path / "own")


@pytest.fixture
def corpora() -> tuple[ParallelCorpus, ParallelCorpus]:
    """The same text, in memory."""
    return synthetic_language.generate_corpora(SMALL)


@pytest.fixture
def engine() -> PlainEngine:
    """An engine that notes what it is given."""
    return PlainEngine()
