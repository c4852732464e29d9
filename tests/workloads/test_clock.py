"""The clock starts before any part of the system touches the data set (training_rules.adoc v0.7,
Run Results): for every workload.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from testbed import SETTINGS

from harness.machine import cpus
from harness.progress import Progress
from harness.request import build_reading_options
from harness.training import run_set, timed_run
from harness.training.mllog_writer import MllogWriter
from suite import events, registry
from suite.cli import RunOptions
from suite.errors import JudgedError
from suite.rounds import Profile

SELF_TAUGHT = {"minigo"}
"""Workloads that learn from what they make: their data are what is served."""

OWN_FORMAT = {"llama"}
"""Workloads whose embedded data are not in the format of a user's."""


class Guard:
    """Raises where something is opened or listed below its folders while it is shut; notes what was
    while it was not.
    """

    def __init__(self, *folders: Path, free: Path) -> None:
        self.folders, self.free = folders, free
        self.shut, self.done = False, False
        self.opened: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if (
            self.done
            or event not in ("open", "os.listdir", "os.scandir")
            or not isinstance(arguments[0], str | bytes | os.PathLike)
        ):
            return
        path = Path(os.fsdecode(arguments[0])).absolute()
        if path.is_relative_to(self.free) or not any(
            path.is_relative_to(folder) for folder in self.folders
        ):
            return
        if self.shut:
            raise AssertionError(f"{path} was opened before the clock")
        self.opened.append(str(path))


def spelt(workload: str) -> tuple[str, ...]:
    """Write settings as users do."""
    return tuple(f"{key}={value}" for key, value in SETTINGS[workload].items())


class FirstStep(Exception):
    """Ends a run."""


@pytest.fixture
def guarded(small: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guard]:
    """Shut the data from the clearing of the cache to run_start; a run ends with its first step."""
    monkeypatch.setattr(cpus, "measure_cpu_use", lambda: 0.0)
    monkeypatch.setattr(run_set, "check_training_precision", lambda *_: None)
    cache = small / "cache"
    guard = Guard(cache, small / "own", free=cache / "data")
    sys.addaudithook(guard)
    opening, start = timed_run.log_run_header, MllogWriter.log_start

    def shut(*given: Any) -> None:
        guard.shut = True
        opening(*given)

    def started(log: MllogWriter, key: str, *values: Any, **more: Any) -> None:
        start(log, key, *values, **more)
        if key == events.RUN_START:
            guard.shut, guard.opened = False, []

    def over(*_: Any) -> None:
        raise FirstStep

    monkeypatch.setattr(timed_run, "log_run_header", shut)
    monkeypatch.setattr(MllogWriter, "log_start", started)
    monkeypatch.setattr(Progress, "record_step", over)
    yield guard
    guard.done = True


def train(workload: str, results: Path, data: Path | None) -> None:
    """As the command does, to the first step."""
    with pytest.raises(JudgedError, match="FirstStep"):
        run_set.train_run_set(workload, asked(workload, results, data), seed=1, runs=1)


def asked(workload: str, results: Path, data: Path | None = None) -> RunOptions:
    """On one thread: two would wait for one another beside other tests."""
    return replace(
        build_reading_options(Profile.SMOKE, data, results, None, spelt(workload)), threads=1
    )


@pytest.mark.slow
@pytest.mark.parametrize("workload", sorted(SETTINGS))
def test_no_data_are_opened_before_the_clock(
    workload: str, small: Path, guarded: Guard, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither album nor corpus, embedded or one's own: what is known before run_start comes from
    the manifest; behind it they are read.
    """
    train(workload, small / "results", None)
    told = capsys.readouterr().out
    surveyed = next(
        line for line in told.splitlines() if line.startswith(f"{workload}: surveying the data in ")
    )
    assert str(small / "cache") in surveyed and "saved in" in told
    assert guarded.opened or workload in SELF_TAUGHT, "a step was taken without data"
    if workload in OWN_FORMAT:
        return
    embedded_root = Path(
        surveyed.removeprefix(f"{workload}: surveying the data in ").removesuffix(", once")
    )
    own = embedded_root.rename(small / "own")
    train(workload, small / "again", own)
    assert (
        guarded.opened or workload in SELF_TAUGHT
    ) and f"surveying the data in {own}, once" in capsys.readouterr().out


def test_every_workload_is_asked(small: Path) -> None:
    """A new workload is looked at here, too."""
    assert set(SETTINGS) == {
        name
        for name, point in registry.map_entry_points(registry.WORKLOAD_GROUP).items()
        if point.value.startswith("workloads.")
    }


def test_the_guard_sees_an_album_that_is_read_too_early(
    small: Path, guarded: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: a workload that is not told what is in its data reads them before the
    clock.
    """
    monkeypatch.setattr(timed_run, "add_survey_results_on_ranks", lambda request, run, ranks: run)
    with pytest.raises(JudgedError, match="was opened before the clock"):
        run_set.train_run_set("resnet50", asked("resnet50", small / "results"), seed=1, runs=1)
