"""Histories that no run made: a line for each commit; and what stands around them."""

import random
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from suite.history.book import append_history_lines
from suite.history.records import (
    HISTORY_FORMAT,
    HistoryLine,
    HistoryMachine,
    HistoryResult,
    HistorySource,
    SourceKind,
)

GIT: Final = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
MACHINE: Final = HistoryMachine(
    name="runner-7", accelerators=0, nodes=1, processor="AMD EPYC", processors="1", cores="2"
)
RESULT: Final = HistoryResult(
    round="podium-v1",
    workload="resnet50",
    metric="samples_per_second",
    unit="samples/s",
    value=100.0,
    runs=(100.0,),
    scenario="Offline",
    profile="smoke",
    division="open",
    org="acme",
    system="runner-7",
    engine="torch",
    precision="fp32",
    task={"data.picture_size": 32},
    said={"threads": 2, "device": "cpu", "podium": "0.2.0"},
    campaign="ab",
)


def name_commit(number: int) -> str:
    """Return the hash of a commit by its number."""
    return f"{number:040x}"


def build_line(
    number: int, value: float, machine: HistoryMachine = MACHINE, **changes: Any
) -> HistoryLine:
    """Return the line of a commit's result."""
    day = f"2026-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}T00:00:00Z"
    fields = {"value": value, "runs": (value,), "campaign": f"{number}-{value}"}
    return HistoryLine(
        added=day,
        commit=name_commit(number),
        committed=day,
        machine=machine,
        source=HistorySource(kind=SourceKind.RESULTS, name="results"),
        result=replace(RESULT, **(fields | changes)),
        format=HISTORY_FORMAT,
        digest="",
    )


def sample_values(levels: Sequence[tuple[int, float]], noise: float = 0.01) -> list[float]:
    """Return values with noise: so many of each level."""
    drawn = random.Random(7)
    return [level * drawn.gauss(1, noise) for count, level in levels for _ in range(count)]


def write_history(path: Path, values: Sequence[float], pairs: int = 0, **changes: Any) -> Path:
    """Write a history with a result of each commit, and a second one of each of the first."""
    lines = [build_line(number, value, **changes) for number, value in enumerate(values)]
    lines += [
        build_line(number, value * (1.01 if number % 2 else 0.99), **changes)
        for number, value in enumerate(values[:pairs])
    ]
    append_history_lines(path, lines)
    return path


class Answer(NamedTuple):
    """What a command answered."""

    code: int
    told: str
    """What it printed, or the sentence of its error."""


def run_git(folder: Path, *words: str) -> str:
    """Run git in a folder; return what it prints."""
    done = subprocess.run([*GIT, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
