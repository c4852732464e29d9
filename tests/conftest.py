"""What holds for all tests, before any of them loads a framework."""

import gc
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from suite.process import garbage, openmp

if TYPE_CHECKING:
    from browser import Browser

os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Tests run side by side, one on each core; threads beyond that wait for one another, spinning: of
networks as small as here, twice the time.
"""
openmp.limit_openmp_spinning(
    os.environ
)  # as podium does: tests that ask for more threads share their cores, too

HERE = Path(__file__).parent
SPREAD = {"end_to_end": 0.7, "harness": 0.9}
"""The part of a distributed run over which a folder's files are spread, if not all of it: nobody
should wait for the longest ones at the end.
"""

sys.path.insert(0, str(HERE / "shared"))
from judged_examples import ensure_examples  # noqa: E402 - from that folder
from other_packages import hide_other_packages  # noqa: E402

hide_other_packages()

settings.register_profile(
    "tests", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a machine that stalls is no finding
settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    """Write the judge's examples, which tests read while they are collected."""
    if not hasattr(config, "workerinput"):
        ensure_examples()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect ten thousand tests without looking for garbage among them again and again, a quarter
    of that time; and look seldom while they run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # a test that looks for garbage need not look through them
        gc.set_threshold(garbage.SELDOM_THRESHOLD)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let workers take files of all folders in turn: whole runs and the harness wait for processes,
    networks compute, and four alike leave cores idle.
    """
    if not hasattr(config, "workerinput"):
        return
    folders: dict[str, list[list[pytest.Item]]] = defaultdict(list)
    for path, tests in groupby(items, key=lambda item: item.path):
        folders[path.relative_to(HERE).parts[0]].append(list(tests))
    turns = [
        (place / len(files) * SPREAD.get(folder, 1.0), tests)
        for folder, files in folders.items()
        for place, tests in enumerate(files)
    ]
    items[:] = [test for _, tests in sorted(turns, key=lambda turn: turn[0]) for test in tests]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    """Let the processes of all tests inherit the same environment: the sampler of one run waits for
    the next, and one that was started otherwise is ended.
    """
    os.environ.pop("PYTEST_CURRENT_TEST", None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of published results where there are none, all for one reason; and look seldom
    again: a run in this process has returned to the usual threshold.
    """
    gc.set_threshold(garbage.SELDOM_THRESHOLD)
    if item.get_closest_marker("corpus"):
        from corpus import skip_without_corpus  # its import links thousands of files

        skip_without_corpus()


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """A real browser, started once in each process: a second one could not start beside it."""
    from browser import launched

    with launched() as found:
        yield found
