"""Determines which training round logs belong to: they do not name it, but their dates and
benchmarks indicate it.

A tree or set belongs to the first round that was published after its newest logs and has its
benchmarks; old logs alone prove little,
since results of earlier rounds may be filed again. Source of dates and benchmarks: each round's own
file.
"""

import re
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePath
from typing import Final, NamedTuple

from suite import registry
from suite.files.layout import fold
from suite.rounds.load import parsed

NAMED: Final = re.compile(r"training-v(\d+)\.(\d+)")
ALIASES: Final = {"resnet50": "resnet", "mask": "maskrcnn", "nmt": "gnmt", "ssdresnet": "ssd"}
"""Other names of benchmarks in logs -> the names in the rounds' rows."""
ELSEWHERE: Final = frozenset({"cosmoflow", "deepcam", "oc20", "openfold"})
"""Benchmarks of MLPerf HPC. Source: mlcommons/logging, benchmark_meta.py."""
AFTER_S: Final = 31 * 86_400
"""This long after the newest round's publication, runs belong to an unknown round."""
FAR_S: Final = 10 * 366 * 86_400
"""A clock that is decades ahead was set by hand."""
FILED_AGAIN_S: Final = 2 * 366 * 86_400
"""For this long results may be filed again. Source: mlcommons/training_policies#559; one in ten
published logs is of an earlier round's time.
"""
LATER_SHARE: Final = 0.25
"""Share of the logs with an unknown benchmark from which on all belong to an unknown round."""
SEVERAL: Final = 3
"""Number of logs from which on the newest one alone does not decide, since its clock may be wrong;
no benchmark since v1.0 has fewer runs.
"""


class Told(NamedTuple):
    """The facts in a log of v0.7's dialect."""

    began_s: int | None
    """Seconds since 1970; None if its clock was never set."""
    benchmark: str
    """Normalised name; empty if the log names none."""
    unset: bool = False
    """Whether it has times from a clock that was never set."""
    folder: str = ""
    """The folder of its set; empty if not known."""


class Window(NamedTuple):
    """A round's benchmarks and end date."""

    name: str
    benchmarks: frozenset[str]
    until_s: float
    """The date of publication."""


@cache
def windows() -> Sequence[Window]:
    """Return the rounds of v0.7's dialect in chronological order; each round's runs precede the
    next one's.
    """
    found = [
        (tuple(map(int, match.groups())), name)
        for name in registry.round_names()
        if (match := NAMED.fullmatch(name))
    ]
    tables = [(name, parsed(registry.texts_of_round(name)[0])) for _, name in sorted(found)]
    tables = [
        (name, table) for name, table in tables if table["round"].get("dialect") == ":::MLLOG"
    ]
    follows = [table["training"].get("runs_from") for _, table in tables[1:]]
    ends = [
        follow or table["training"]["published"]
        for follow, (_, table) in zip([*follows, None], tables, strict=True)
    ]
    return [
        Window(name, frozenset(map(fold, table["round"]["rows"])), seconds(end["value"]))
        for end, (name, table) in zip(ends, tables, strict=True)
    ]


def seconds(day: datetime) -> float:
    """Convert a date to seconds since 1970."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def benchmark_of(name: str) -> str:
    """Normalise the name of a benchmark."""
    folded = fold(name)
    return ALIASES.get(folded, folded)


def agreed(logs: Sequence[Told]) -> list[Told]:
    """Give each log the benchmark of its set, which one log of another benchmark does not change:
    that of most logs, or else the folder's name.
    """
    sets: dict[str, Counter[str]] = {}
    for log in logs:
        if log.folder and log.benchmark:
            sets.setdefault(log.folder, Counter())[log.benchmark] += 1
    named = {folder: benchmark_of_set(folder, found) for folder, found in sets.items()}
    return [log._replace(benchmark=named.get(log.folder, log.benchmark)) for log in logs]


def benchmark_of_set(folder: str, found: Counter[str]) -> str:
    """Return the benchmark that more than half of a set's logs name; if none, that of the folder's
    name, or else the most frequent one.
    """
    (most, count), name = found.most_common(1)[0], benchmark_of(PurePath(folder).name)
    return name if 2 * count <= found.total() and is_known(name) else most


def is_known(benchmark: str) -> bool:
    """Return whether any round has a benchmark."""
    return any(benchmark in window.benchmarks for window in windows())


def is_stray(log: Told) -> bool:
    """Return whether a log names another benchmark than the folder that it lies in."""
    name = benchmark_of(PurePath(log.folder).name)
    return bool(log.benchmark) and log.benchmark != name and is_known(name)


def newest(logs: Sequence[Told]) -> int | None:
    """Return the decisive date: of several logs the second newest; dates decades ahead are
    ignored.
    """
    days = sorted(
        log.began_s for log in logs if log.began_s is not None and log.began_s < time.time() + FAR_S
    )
    return (days[-2] if len(days) >= SEVERAL else days[-1]) if days else None


def round_of(logs: Sequence[Told]) -> str | None:
    """Return the round of logs; None if no known round has their benchmarks, or they are newer than
    all rounds.
    """
    if logs and all(log.unset for log in logs):
        return None
    known, logs = windows(), agreed(logs)
    named = [log.benchmark for log in logs if log.benchmark]
    day, first = newest(logs), known[0]
    old = day is not None and day < first.until_s
    strange = [
        name
        for name in named
        if (name in ELSEWHERE or not old) and not any(name in window.benchmarks for window in known)
    ]
    if len(strange) > LATER_SHARE * len(logs) or (
        day is not None and day > known[-1].until_s + AFTER_S
    ):
        return None
    open_to = [window for window in known if day is None or day <= window.until_s] or known[-1:]
    fitting = [
        (sum(name in window.benchmarks for name in named), window.name) for window in open_to
    ]
    best = max(count for count, _ in fitting)
    if best == 0 and any(name in window.benchmarks for name in named for window in known):
        return None  # benchmarks that were retired before that date
    return next(name for count, name in fitting if count == best)


def allows(name: str, logs: Sequence[Told]) -> bool:
    """Return whether logs may belong to a round: they are not newer, and it has the benchmarks of
    all their sets.
    """
    window = next((window for window in windows() if window.name == name), None)
    day = newest(logs)
    if window is None or (day is not None and day > window.until_s + AFTER_S):
        return False
    return all(log.benchmark in window.benchmarks for log in agreed(logs) if log.benchmark)


def candidates(logs: Sequence[Told]) -> tuple[str, ...]:
    """Return the rounds that logs may belong to in chronological order: published behind the newest
    log, by two years at most, with all benchmarks.
    """
    day, benchmarks = newest(logs), {log.benchmark for log in agreed(logs) if log.benchmark}
    if day is None or not benchmarks:
        return ()
    return tuple(
        each.name
        for each in windows()
        if 0 <= each.until_s - day < FILED_AGAIN_S and benchmarks <= each.benchmarks
    )


def excludes(name: str | None, logs: Sequence[Told]) -> bool:
    """Return whether logs cannot belong to a round whose days and benchmarks are known."""
    return any(window.name == name for window in windows()) and not allows(str(name), logs)
