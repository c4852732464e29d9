"""Series: the results of a history that may be compared, on one machine and of one configuration,
in the order of their commits.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import PurePosixPath
from statistics import fmean
from typing import Any, Final

from submissions.compare.fitness import (
    explain_missing_ratio,
    find_incomparability_reasons,
    format_trait_value,
)
from submissions.history.reading import restore_result
from suite.files.layout import convert_to_slug
from suite.files.untrusted_files import replace_unprintable
from suite.history.book import NumberedLine
from suite.history.records import HistoryLine, compute_measured_key, encode_canonically
from suite.measurement.metrics import is_higher_better
from suite.result import Result

CONFIGURATION_TRAITS: Final = ("device", "threads", "world size", "batch", "calibration")
"""What a user sets, of the traits that may differ. Versions, checkpoints and the processor are
none: they change from commit to commit, and are told beside a change.
"""
BATCHING_PREFIX: Final = "batching."
"""Settings that say how requests are put together."""
CONFIGURATION_DIGITS: Final = 6
"""Digits of the hash in the name of a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """How far results of one commit lie apart."""

    share: float
    """Standard deviation of a result, as a share of it."""
    pairs: int
    """Degrees of freedom: results beyond the first of each commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """The results of one commit."""

    commit: str
    committed: str
    lines: tuple[NumberedLine, ...]
    value: float
    """Geometric mean of the results, in the series' unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Results that may be compared."""

    first: Result
    """The earliest of them."""
    machine: str
    configuration: Mapping[str, Any]
    points: tuple[SeriesPoint, ...]
    place: PurePosixPath = PurePosixPath()
    """Its name as a path, by which a waiver names it; unique in its history."""

    @property
    def title(self) -> str:
        """Return its name in a sentence."""
        return replace_unprintable(f"{self.first.workload} {self.scenario} on {self.machine}")

    @property
    def scenario(self) -> str:
        """Return the scenario, or what stands for none."""
        return self.first.scenario or "training"

    @property
    def settings(self) -> str:
        """Return the configuration for a reader."""
        told = (
            format_trait_value(value) if name in ("engine", "precision") else f"{name} {value}"
            for name, value in self.configuration.items()
        )
        return replace_unprintable(", ".join(told))

    @property
    def untested(self) -> str:
        """Say why its values are no speeds; empty if they are."""
        return explain_missing_ratio(self.first.made_with.asked, "")

    @property
    def is_higher_better(self) -> bool:
        """Return whether more is better."""
        return is_higher_better(self.first.metric)

    @property
    def noise(self) -> NoiseFloor | None:
        """Return the noise of results of one commit; None without two of any."""
        groups = [[math.log(read_line_value(each.line)) for each in p.lines] for p in self.points]
        spreads = [sum((x - fmean(each)) ** 2 for x in each) for each in groups]
        pairs = sum(len(each) - 1 for each in groups)
        if not pairs or not any(spreads):
            return None
        return NoiseFloor(share=math.sqrt(sum(spreads) / pairs), pairs=pairs)


@dataclass(slots=True)
class OpenSeries:
    """A series while its lines are collected."""

    first: Result
    lines: list[NumberedLine] = field(default_factory=list)


def build_series(lines: Sequence[NumberedLine]) -> list[Series]:
    """Group the lines of a history: those of one machine and configuration that may be compared
    with the earliest of them. Sorted by workload, scenario and machine.
    """
    groups: dict[bytes, list[OpenSeries]] = {}
    for each in sorted(unify_lines(lines), key=rank_line):
        result = restore_result(each.line.machine, each.line.result)
        known = groups.setdefault(encode_series_key(each.line), [])
        fitting = next(
            (one for one in known if not any(find_incomparability_reasons(one.first, result))),
            None,
        )
        if fitting is None:
            fitting = OpenSeries(result)
            known.append(fitting)
        fitting.lines.append(each)
    found = [close_series(one) for known in groups.values() for one in known]
    return list(assign_places(sorted(found, key=rank_series)))


def unify_lines(lines: Sequence[NumberedLine]) -> list[NumberedLine]:
    """Return what the branches that a merge brought together say: each measurement of a commit
    once, and one time of each commit, the earliest.
    """
    times: dict[str, str] = {}
    known: dict[tuple[str, str], NumberedLine] = {}
    for each in lines:
        line = each.line
        times[line.commit] = min(line.committed, times.get(line.commit, line.committed))
        known.setdefault((line.commit, compute_measured_key(line)), each)
    return [
        replace(each, line=replace(each.line, committed=times[each.line.commit]))
        for each in known.values()
    ]


def rank_line(each: NumberedLine) -> tuple[str, str, str, int]:
    """Return a line's place in time: its commit's, then its own."""
    line = each.line
    return line.committed, line.commit, line.added, each.number


def rank_series(found: Series) -> tuple[str, str, str, str]:
    """Return the place of a series in a list."""
    return found.first.workload, found.scenario, found.machine, found.settings


def encode_series_key(line: HistoryLine) -> bytes:
    """Return what a series has in common beside what comparisons require."""
    result = line.result
    return encode_canonically(
        {
            "machine": line.machine.name,
            "workload": result.workload,
            "scenario": result.scenario,
            "study": result.study,
            "metric": result.metric,
            "configuration": describe_configuration(line),
        }
    )


def describe_configuration(line: HistoryLine) -> dict[str, Any]:
    """Return what was set for a result: engine, number format, device and threads."""
    result = line.result
    named = {"engine": result.engine, "precision": result.precision, "batch": result.batch}
    named |= {name: result.said.get(name) for name in CONFIGURATION_TRAITS if name in result.said}
    named |= {
        name: value
        for name, value in sorted(result.said.items())
        if name.startswith(BATCHING_PREFIX)
    }
    return {name: value for name, value in named.items() if value is not None}


def close_series(found: OpenSeries) -> Series:
    """Return a series with a point for each commit."""
    line = found.lines[0].line
    return Series(
        first=found.first,
        machine=line.machine.name,
        configuration=describe_configuration(line),
        points=tuple(iterate_points(found.lines)),
    )


def iterate_points(lines: Sequence[NumberedLine]) -> Iterator[SeriesPoint]:
    """Yield the results of each commit, which follow one another."""
    for commit, group in groupby(lines, key=lambda each: each.line.commit):
        found = tuple(group)
        yield SeriesPoint(
            commit=commit,
            committed=found[0].line.committed,
            lines=found,
            value=compute_geometric_mean([read_line_value(each.line) for each in found]),
        )


def read_line_value(line: HistoryLine) -> float:
    """Return what is compared of a result, as `podium compare` tests it: the geometric mean of its
    runs, or its value where one of them has none.
    """
    runs = [each for each in line.result.runs if each is not None and each > 0]
    if len(runs) < max(1, len(line.result.runs)):
        return line.result.value
    return compute_geometric_mean(runs)


def compute_geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean; a single value with all its digits."""
    if len(values) == 1:
        return values[0]
    return math.exp(fmean(map(math.log, values)))


def assign_places(found: Sequence[Series]) -> Iterator[Series]:
    """Yield each series with a place of its own."""
    taken: set[PurePosixPath] = set()
    for each in found:
        names = (each.machine, each.first.workload, each.scenario, name_configuration(each))
        base = PurePosixPath(*map(convert_to_slug, names))
        place, number = base, 1
        while place in taken:
            number += 1
            place = base.with_name(f"{base.name}-{number}")
        taken.add(place)
        yield replace(each, place=place)


def name_configuration(series: Series) -> str:
    """Name a configuration shortly, and the same whatever other series there are."""
    digits = hashlib.sha256(encode_canonically(series.configuration)).hexdigest()
    named = (series.first.engine, series.first.precision, digits[:CONFIGURATION_DIGITS])
    return "-".join(filter(None, named))
