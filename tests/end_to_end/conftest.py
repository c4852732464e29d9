"""The commands as a user types them, in processes of their own, with the fake workload among the installed ones."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

FAKES = Path(__file__).resolve().parents[1] / "fakes"
FORKED = Path(__file__).resolve().parents[1] / "shared" / "forked.py"
sys.path.insert(0, str(FAKES))

from podium_fakes.kept import keep_ceiling  # noqa: E402

FAKE = ("--framework", "fake", "--engine", "fake", "--device", "cpu", "--precision", "fp32", "--threads", "1")
SLEEPS = ("--set", "fake.sleep_ms=0.3")
"""A run has hundreds of queries to judge, not thousands."""
RATE = ("--set", "server.target_qps=500")
"""Low enough for any machine, so that no run is done twice."""

Podium = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the processes see: the fake workload, and a cache of their own, in which this host's ceiling is known."""
    paths = os.pathsep.join(filter(None, [str(FAKES), os.environ.get("PYTHONPATH")]))
    keep_ceiling(cache := tmp_path_factory.mktemp("cache"))
    return {**os.environ, "PYTHONPATH": paths, "PODIUM_CACHE": str(cache), "PODIUM_FAKE_BRIEF": "yes"}


def to_its_end(environment: dict[str, str], *start: str) -> Podium:
    """Make what runs `podium ...`, started like this, to its end."""

    def run(*words: object, environment: dict[str, str] = environment) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *start, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)

    return run


@pytest.fixture(scope="session")
def podium(environment: dict[str, str]) -> Podium:
    """Run `podium ...` to its end."""
    return to_its_end(environment, "-m", "suite.cli")


@pytest.fixture(scope="session")
def forked(environment: dict[str, str]) -> Podium:
    """Run `podium ...` to its end in two thirds of the time, where what LoadGen's processes are started from is not what is tested."""
    return to_its_end(environment, str(FORKED))


@pytest.fixture(scope="session")
def fake() -> Sequence[str]:
    """The options that make a campaign of the fake workload small and alike on any machine."""
    return (*FAKE, *SLEEPS, *RATE)


@pytest.fixture(scope="session")
def campaign(podium: Podium, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    """A results folder after `podium run fake` on a host that it does not know, and what the command said; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("campaign")
    unknown = {name: value for name, value in environment.items() if name != "PODIUM_FAKE_BRIEF"} | {"PODIUM_CACHE": str(folder / "cache")}
    return folder / "results", podium("run", "fake", "--results", folder / "results", "--seed", 1, *FAKE, *SLEEPS, *RATE, environment=unknown)
