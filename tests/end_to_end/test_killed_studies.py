"""A search or a sweep that is killed, as by the power cut of a night's study: what was measured
stays, and the same command ends it.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from podium_fakes.kept import keep_ceiling, keep_checkpoint

Podium = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.slow

LEAST = 2
"""Runs that are complete when the kill comes; the one after them is on its way."""
COMMANDS = {
    "peak": (
        "--within-ms",
        "400",
        "--budget-s",
        "60",
        "--tolerance",
        "0.5",
        "--set",
        "batching.max_batch=1",
        "--set",
        "fake.sleep_ms=2",
    ),
    "sweep": ("--batches", "1,2,4,8", "--seconds", "1", "--set", "fake.sleep_ms=2"),
}


def kept(results: Path) -> dict[str, dict[str, Any]]:
    """Give the records of all complete runs; a folder that is still `.partial` has none that
    counts, and may be renamed while they are listed.
    """
    while True:
        with suppress(FileNotFoundError):
            found = [
                path
                for path in results.glob("studies/**/point.json")
                if ".partial" not in str(path)
            ]
            return {str(path.relative_to(results)): json.loads(path.read_text()) for path in found}


def killed(
    words: Sequence[object],
    environment: dict[str, str],
    enough: Callable[[], bool],
    end: signal.Signals,
) -> None:
    """Begin a command, and end it and all its children once there is enough."""
    process = subprocess.Popen(
        [sys.executable, "-m", "suite.cli", *map(str, words)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    limit_s = time.monotonic() + 300
    while not enough():
        assert process.poll() is None and time.monotonic() < limit_s, (
            "it ended, or nothing was kept"
        )
        time.sleep(0.02)
    for each in [
        *psutil.Process(process.pid).children(recursive=True),
        psutil.Process(process.pid),
    ]:
        with suppress(
            psutil.NoSuchProcess
        ):  # LoadGen's own ends with the template that it was forked from
            each.send_signal(end)
    process.wait(120)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "terminated"])
def test_a_study_that_is_killed_keeps_what_was_measured_and_goes_on(
    name: str,
    end: signal.Signals,
    podium: Podium,
    forked: Podium,
    environment: dict[str, str],
    tmp_path: Path,
    fake: Sequence[str],
) -> None:
    """A part of a run must not count, and nothing that was measured is measured again."""
    own = {**environment, "PODIUM_CACHE": str(tmp_path / "cache")}
    results = tmp_path / "results"
    keep_ceiling(tmp_path / "cache")
    keep_checkpoint(results)
    words = (name, "fake", *fake[:-2], "--results", results, *COMMANDS[name])
    killed(words, own, lambda: len(kept(results)) >= LEAST, end)
    before = kept(results)
    outcome = forked(*words, environment=own)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    after = kept(results)
    assert len(after) > len(before) and {path: after.get(path) for path in before} == before
    checked = podium("check", *results.glob("studies/*"), environment=own)
    assert checked.returncode == 0, checked.stdout
    assert not list(results.rglob("*.partial"))
