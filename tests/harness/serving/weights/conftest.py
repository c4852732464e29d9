"""The references' networks lie in a folder of their own; what is imported is for embedded data of a
few samples, with all their classes.
"""

import sys
from pathlib import Path

import pytest
from few_samples import draw_few

REFERENCES = str(Path(__file__).parent / "references")
if REFERENCES not in sys.path:
    sys.path.insert(0, REFERENCES)


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network's shape depends on classes and words alone, so no test draws whole sets."""
    draw_few(monkeypatch, tmp_path / "cache")
