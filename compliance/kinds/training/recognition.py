"""Determine which training round logs belong to: they do not name it, but their dates and
benchmarks indicate it.

A tree or set belongs to the first round that was published after its newest logs and has its
benchmarks; old logs alone prove little, since results of earlier rounds may be submitted again.
Source of dates and benchmarks: each round's own file.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from compliance.kinds.training.round import TRAINING_ROUND_TABLES, list_training_rounds
from suite import registry
from suite.files.layout import fold_name
from suite.rounds.load import merge_round_tables

MLLOG_DIALECT: Final = ":::MLLOG"
LOG_BENCHMARK_ALIASES: Final = {
    "resnet50": "resnet",
    "mask": "maskrcnn",
    "nmt": "gnmt",
    "ssdresnet": "ssd",
}
"""Other names of benchmarks in logs -> the names in the rounds' rows."""
HPC_BENCHMARKS: Final = frozenset({"cosmoflow", "deepcam", "oc20", "openfold"})
"""Benchmarks of MLPerf HPC. Source: mlcommons/logging, benchmark_meta.py."""
PUBLICATION_MARGIN_S: Final = 31 * 86_400
"""This long after the newest round's publication, runs belong to an unknown round."""
MAX_CLOCK_LEAD_S: Final = 10 * 366 * 86_400
"""A clock that is decades ahead was set by hand."""
MAX_REFILING_DELAY_S: Final = 2 * 366 * 86_400
"""Time during which results may be submitted again. Source: mlcommons/training_policies#559; one in
ten published logs dates from an earlier round.
"""
UNKNOWN_BENCHMARK_SHARE: Final = 0.25
"""Minimum share of logs with an unknown benchmark at which all belong to an unknown round."""
MIN_LOGS_FOR_SECOND_NEWEST: Final = 3
"""Minimum number of logs at which the newest one alone does not decide, since its clock may be
wrong; no benchmark since v1.0 has fewer runs.
"""


class TrainingLogEvidence(NamedTuple):
    """The facts in a log of v0.7's dialect."""

    began_s: int | None
    """Seconds since 1970; None if its clock was never set."""
    benchmark: str
    """Normalised name; empty if the log names none."""
    unset: bool = False
    """Whether it has times from a clock that was never set."""
    folder: str = ""
    """The folder of its set; empty if unknown."""


class RoundWindow(NamedTuple):
    """A round's benchmarks and end date."""

    name: str
    benchmarks: frozenset[str]
    until_s: float
    """The date of publication."""


@cache
def list_round_windows() -> Sequence[RoundWindow]:
    """Return the rounds of v0.7's dialect in the order in which they were published. A round's runs
    end when it was published, or when those of the next one begin if that is later.
    """
    found = []
    for name in list_training_rounds():
        tables, _ = merge_round_tables(name, registry.collect_round_texts(name))
        if tables["round"].get("dialect") == MLLOG_DIALECT:
            found.append((tables["training"]["published"], name, tables))
    found.sort(key=lambda each: each[:2])
    follows = [tables["training"].get("runs_from") for _, _, tables in found[1:]]
    return [
        RoundWindow(
            name,
            frozenset(map(fold_name, iterate_benchmark_names(tables))),
            convert_date_to_seconds(max(published, follow or published)),
        )
        for follow, (published, name, tables) in zip([*follows, None], found, strict=True)
    ]


def iterate_benchmark_names(tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of a round's benchmarks: those with a file of rows, and those whose row is in
    the round's own file.
    """
    yield from tables["round"].get("rows", ())
    yield from tables.keys() - TRAINING_ROUND_TABLES


def convert_date_to_seconds(day: date) -> float:
    """Convert a date to seconds since 1970."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def normalise_benchmark_name(name: str) -> str:
    """Normalise the name of a benchmark."""
    folded = fold_name(name)
    return LOG_BENCHMARK_ALIASES.get(folded, folded)


def align_set_benchmarks(logs: Sequence[TrainingLogEvidence]) -> list[TrainingLogEvidence]:
    """Give each log the benchmark of its set: that of most logs, or else the folder's name. One log
    of another benchmark does not change it.
    """
    sets: dict[str, Counter[str]] = {}
    for log in logs:
        if log.folder and log.benchmark:
            sets.setdefault(log.folder, Counter())[log.benchmark] += 1
    named = {folder: choose_set_benchmark(folder, found) for folder, found in sets.items()}
    return [log._replace(benchmark=named.get(log.folder, log.benchmark)) for log in logs]


def choose_set_benchmark(folder: str, benchmark_counts: Counter[str]) -> str:
    """Return the benchmark that more than half of a set's logs name; if none, that of the folder's
    name, or else the most frequent one.
    """
    (most, count), name = (
        benchmark_counts.most_common(1)[0],
        normalise_benchmark_name(PurePath(folder).name),
    )
    if 2 * count <= benchmark_counts.total() and is_known_benchmark(name):
        return name
    return most


def is_known_benchmark(benchmark: str) -> bool:
    """Return whether any round has a benchmark."""
    return any(benchmark in window.benchmarks for window in list_round_windows())


def is_of_other_benchmark(log: TrainingLogEvidence) -> bool:
    """Return whether a log names a benchmark other than its folder's."""
    name = normalise_benchmark_name(PurePath(log.folder).name)
    return bool(log.benchmark) and log.benchmark != name and is_known_benchmark(name)


def find_decisive_date(logs: Sequence[TrainingLogEvidence]) -> int | None:
    """Return the decisive date: of several logs the second newest; dates decades ahead are
    ignored.
    """
    days = sorted(
        log.began_s
        for log in logs
        if log.began_s is not None and log.began_s < time.time() + MAX_CLOCK_LEAD_S
    )
    if not days:
        return None
    if len(days) >= MIN_LOGS_FOR_SECOND_NEWEST:
        return days[-2]
    return days[-1]


def choose_training_round(logs: Sequence[TrainingLogEvidence]) -> str | None:
    """Return the round of logs; None if no known round has their benchmarks, or they are newer than
    all rounds.
    """
    if logs and all(log.unset for log in logs):
        return None
    known, logs = list_round_windows(), align_set_benchmarks(logs)
    named = [log.benchmark for log in logs if log.benchmark]
    day, first = find_decisive_date(logs), known[0]
    old = day is not None and day < first.until_s
    strange = [
        name
        for name in named
        if (name in HPC_BENCHMARKS or not old)
        and not any(name in window.benchmarks for window in known)
    ]
    if len(strange) > UNKNOWN_BENCHMARK_SHARE * len(logs) or (
        day is not None and day > known[-1].until_s + PUBLICATION_MARGIN_S
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


def can_belong_to_round(name: str, logs: Sequence[TrainingLogEvidence]) -> bool:
    """Return whether logs may belong to a round: they are not newer, and it has the benchmarks of
    all their sets.
    """
    window = next((window for window in list_round_windows() if window.name == name), None)
    day = find_decisive_date(logs)
    if window is None or (day is not None and day > window.until_s + PUBLICATION_MARGIN_S):
        return False
    return all(
        log.benchmark in window.benchmarks for log in align_set_benchmarks(logs) if log.benchmark
    )


def list_candidate_rounds(logs: Sequence[TrainingLogEvidence]) -> tuple[str, ...]:
    """Return the rounds that logs may belong to in chronological order: published after the newest
    log, by at most two years, with all benchmarks.
    """
    day, benchmarks = (
        find_decisive_date(logs),
        {log.benchmark for log in align_set_benchmarks(logs) if log.benchmark},
    )
    if day is None or not benchmarks:
        return ()
    return tuple(
        each.name
        for each in list_round_windows()
        if 0 <= each.until_s - day < MAX_REFILING_DELAY_S and benchmarks <= each.benchmarks
    )


def is_round_excluded(name: str | None, logs: Sequence[TrainingLogEvidence]) -> bool:
    """Return whether logs cannot belong to a round whose days and benchmarks are known."""
    return any(window.name == name for window in list_round_windows()) and not can_belong_to_round(
        str(name), logs
    )
