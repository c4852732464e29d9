"""The builders of examples, and the fakes that all packages share, are imported by name."""

import sys
from pathlib import Path

import pytest

for folder in (
    Path(__file__).parent,
    Path(__file__).parent / "builders",
    Path(__file__).parents[1] / "fakes",
):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from counting import Counts  # noqa: E402 - from one of these folders


@pytest.fixture(scope="module")
def counts() -> Counts:
    """What the tests of a file have counted."""
    return Counts()


@pytest.fixture
def counted_once(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count each accuracy log once in all tests of a file."""
    counts.put_in(monkeypatch)
