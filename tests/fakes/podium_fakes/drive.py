"""How tests drive a training: in this process, or in a child that may be killed."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from podium_fakes import STEP_MS
from suite.cli import RunOptions
from suite.errors import JudgedError
from suite.files.layout import ResultsEntry
from suite.terms import Division, Precision, Profile

SYSTEM = "testbed"
T = TypeVar("T")


def options(results: Path, *assignments: str, **changes: Any) -> RunOptions:
    """Ask for the fake workload on the CPU."""
    usual: dict[str, Any] = {
        "profile": Profile.SMOKE,
        "framework": "fake",
        "engine": "fake",
        "input": "default",
        "data": None,
        "results": results,
        "device": "cpu",
        "precision": Precision.FP32,
        "threads": 1,
        "config": None,
        "assignments": assignments,
        "org": "tests",
        "system": SYSTEM,
    }
    return RunOptions(**{**usual, **changes})


def words(results: Path, *more: str, workload: str = "fake", framework: str = "fake") -> list[str]:
    """The same request as a command line."""
    common = [
        "--framework",
        framework,
        "--device",
        "cpu",
        "--org",
        "tests",
        "--system",
        SYSTEM,
        "--threads",
        "1",
    ]
    return ["train", workload, "--results", str(results), *common, *more]


def start(
    arguments: Sequence[str], launcher: Sequence[str] = ("-m", "harness"), **settings: Any
) -> subprocess.Popen[str]:
    """Start the command in a child process of its own group."""
    pipes: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    return subprocess.Popen([sys.executable, *launcher, *arguments], **pipes, **settings)


def slowed(step_ms: int = 100, **more: str) -> dict[str, str]:
    """Give the environment of a fake training that is to be stopped, however late the test comes to
    it.
    """
    return {**os.environ, STEP_MS: str(step_ms), **more}


def until(condition: Callable[[], bool], limit_s: float = 240.0, every_s: float = 0.01) -> None:
    """Wait for something to become true; what costs much to look at is looked at less often."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(every_s)


def until_valid(serve: Callable[[], T], tries: int = 5, stalled: str = "INVALID") -> T:
    """Serve; again where a machine that stalled made a run INVALID, which podium does not repeat at
    a rate that was asked for, or made it say `stalled`.
    """
    for _ in range(tries - 1):
        try:
            return serve()
        except JudgedError as error:
            if stalled not in str(error):
                raise
    return serve()


def listed(folder: Path, pattern: str) -> list[Path]:
    """Find files at any depth while another process writes and renames: none where a folder
    vanished under the search.
    """
    with suppress(FileNotFoundError):
        return list(folder.rglob(pattern))
    return []


def entry(results: Path, division: Division = Division.OPEN) -> ResultsEntry:
    """Where those results lie."""
    return ResultsEntry(results=results, division=division, org="tests", system=SYSTEM)


def log_path(results: Path, run: int = 0, division: Division = Division.OPEN) -> Path:
    """Where the log of a finished run lies."""
    return entry(results, division).locate_training_log("resnet", run)


def partial(path: Path) -> Path:
    """Where it lies before."""
    return path.with_name(path.name + ".partial")


def events(path: Path) -> list[dict[str, Any]]:
    """Read a training log."""
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]


def keys(path: Path) -> list[str]:
    """Name the events of a log, in order."""
    return [event["key"] for event in events(path)]


def heads_and_ends(telemetry: Path) -> list[str]:
    """Name the first and the last lines of the segments of a telemetry file, in order."""
    keys = [next(iter(json.loads(line))) for line in telemetry.read_text().splitlines()]
    return [key for key in keys if key in ("telemetry", "end")]


def valid_events(path: Path) -> list[dict[str, Any]]:
    """Read a log as the judge does: what a `resumed` voids is left out, and so is `resumed`
    itself.
    """
    kept: list[tuple[int, dict[str, Any]]] = []
    offset = 0
    for line in path.read_bytes().splitlines(keepends=True):
        event = json.loads(line.removeprefix(b":::MLLOG "))
        if event["key"] == "resumed":
            kept = [pair for pair in kept if pair[0] < event["metadata"]["log_offset"]]
        else:
            kept.append((offset, event))
        offset += len(line)
    return [event for _, event in kept]


def marks(path: Path) -> list[tuple[str, object, object]]:
    """What a log says once what is void is left out, without times and rates."""
    found = [
        event
        for event in valid_events(path)
        if event["key"] not in ("tracked_stats", "campaign_nonce", "command_line", "settings")
    ]
    return [(event["key"], event["value"], event["metadata"].get("epoch_num")) for event in found]


def weights(results: Path, workload: str = "fake") -> dict[str, bytes]:
    """Read the newest checkpoint's files, without the record."""
    folder = max((results / "checkpoints" / workload).iterdir(), key=os.path.getmtime)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "record.json"}
