"""What holds for all tests, before any of them loads a framework."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from suite.process import garbage

os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Tests run side by side, one on each core; threads beyond that wait for one another, spinning: of networks as small as here, twice the time."""

sys.path.insert(0, str(Path(__file__).with_name("shared")))
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a machine that stalls is no finding
settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect ten thousand tests without looking for garbage among them again and again, a quarter of that time; and look seldom while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # a test that looks for garbage need not look through them
        gc.set_threshold(garbage.SELDOM)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    """Let the processes of all tests inherit the same environment: the sampler of one run waits for the next, and one that was started otherwise is ended."""
    os.environ.pop("PYTEST_CURRENT_TEST", None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Look seldom again: a run in this process has returned to the usual threshold."""
    gc.set_threshold(garbage.SELDOM)
