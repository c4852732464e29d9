"""The commands as a user types them, in processes of their own, with the fake workload among the
installed ones.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from filelock import FileLock
from warm import COMMANDS, Warm

FAKES = Path(__file__).resolve().parents[1] / "fakes"
sys.path.insert(0, str(FAKES))

from podium_fakes.kept import keep_ceiling  # noqa: E402

FAKE = (
    "--framework",
    "fake",
    "--engine",
    "fake",
    "--device",
    "cpu",
    "--precision",
    "fp32",
    "--threads",
    "1",
)
SLEEPS = ("--set", "fake.sleep_ms=0.3")
"""A run has hundreds of queries to judge, not thousands."""
RATE = ("--set", "server.qps_share=0.02")
"""Low enough for any machine that does not stall; where one does, the run is repeated, which it
would not be at a rate of the user's own.
"""
TOLD = "told.json"
"""What the command of the shared campaign said: the last file of its folder."""

Podium = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the processes see: the fake workload, and a cache of their own, in which this host's
    ceiling is known.
    """
    paths = os.pathsep.join(filter(None, [str(FAKES), os.environ.get("PYTHONPATH")]))
    keep_ceiling(cache := tmp_path_factory.mktemp("cache"))
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "PODIUM_CACHE": str(cache),
        "PODIUM_FAKE_BRIEF": "yes",
    }


@pytest.fixture(scope="session")
def warm(environment: dict[str, str]) -> Iterator[Warm]:
    """Where commands come from whose start is not what is tested."""
    started = Warm(
        *COMMANDS,
        "podium_fakes.fake",
        "podium_fakes.engine",
        "podium_fakes.served",
        env=environment,
    )
    yield started
    started.end()


@pytest.fixture(scope="session")
def podium(warm: Warm, environment: dict[str, str]) -> Podium:
    """Run `podium ...` to its end."""

    def run(
        *words: object, environment: Mapping[str, str] = environment
    ) -> "subprocess.CompletedProcess[str]":
        return warm.run(words, environment)

    return run


@pytest.fixture(scope="session")
def forked(warm: Warm, environment: dict[str, str]) -> Podium:
    """Run `podium ...` to its end, with LoadGen's processes forked too, where what those are
    started from is not what is tested.
    """

    def run(
        *words: object, environment: Mapping[str, str] = environment
    ) -> "subprocess.CompletedProcess[str]":
        return warm.run(words, environment, "forked")

    return run


@pytest.fixture(scope="session")
def fake() -> Sequence[str]:
    """The options that make a campaign of the fake workload small and alike on any machine."""
    return (*FAKE, *SLEEPS, *RATE)


@pytest.fixture(scope="session")
def trained() -> Sequence[str]:
    """The same for its training alone, which has no engine."""
    place = FAKE.index("--engine")
    return (*FAKE[:place], *FAKE[place + 2 :], *SLEEPS, *RATE)


@pytest.fixture(scope="session")
def campaign(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    """A results folder after `podium run fake` as a user types it, on a host that it does not know,
    and what the command said.

    Made once for all processes of the tests; those that change it take a copy.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "campaign"
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / TOLD).exists():
            shutil.rmtree(folder, ignore_errors=True)
            made(folder, environment)
    told = json.loads((folder / TOLD).read_text())
    return folder / "results", subprocess.CompletedProcess(**told)


def made(folder: Path, environment: Mapping[str, str]) -> None:
    """Run that campaign."""
    unknown = {
        name: value for name, value in environment.items() if name != "PODIUM_FAKE_BRIEF"
    } | {"PODIUM_CACHE": str(folder / "cache")}
    command = [
        sys.executable,
        "-m",
        "suite.cli",
        "run",
        "fake",
        "--results",
        str(folder / "results"),
        "--seed",
        "1",
        *FAKE,
        *SLEEPS,
        *RATE,
    ]
    outcome = subprocess.run(
        command, capture_output=True, text=True, env=unknown, timeout=540, check=False
    )
    folder.mkdir(exist_ok=True)
    (folder / "told.partial").write_text(json.dumps(vars(outcome)))
    (folder / "told.partial").rename(folder / TOLD)
