"""Runs of a few short games."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testbed import a_run

from suite.workload import Run

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))  # boards.py lies there

from boards import SMALL  # noqa: E402


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """Make a run of the smoke profile with a few games; settings by keyword with `__` for a dot."""

    def make(data: Path | None = None, **asked: Any) -> Run:
        return a_run("minigo", data, tmp_path / "cache", SMALL, **asked)

    return make
