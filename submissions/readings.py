"""What scores and manifests read from the logs of a result; nothing here judges."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec

from compliance.logs import mllog
from compliance.logs import summary as summaries
from compliance.logs.source import Kind, SourceFile
from suite import events
from suite.errors import JudgedError
from suite.layout import RUN_RECORD, SUMMARY
from suite.reading import UnreadableError, read
from suite.records import RunRecord
from suite.scenario import Scenario

MS_PER_MINUTE: Final = 60_000
TIME_TO_TRAIN: Final = "time_to_train"
MINUTES: Final = "minutes"
PUBLISHED: Final = "published"
PERCENTILE: Final = re.compile(r"(\d+(?:\.\d+)?)(?:th|st|nd|rd)? percentile latency")
ESTIMATE: Final = re.compile(r"Early stopping (\d+(?:\.\d+)?)(?:th|st|nd|rd)? percentile estimate: (\d+)")
"""LoadGen's bound on the percentile from as many queries as there were; what MLPerf scores since v1.1."""
RATES: Final = {
    Scenario.SERVER: ("Completed samples per second", "completed_samples_per_second"),
    Scenario.OFFLINE: ("Samples per second", "samples_per_second"),
}
"""Scenario -> name in the summary, metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFacts:
    """What one training log says of its run."""

    stamps: Mapping[str, Any]
    """Key -> value of the first event of that name: round, profile, nonce, seed, settings."""
    minutes: float | None
    """run_start to the last run_stop; None where one of them is missing."""
    status: str
    """Of the last run_stop; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The headline of one performance run."""

    metric: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the logs of one result say."""

    profile: str
    """As much of the round as was run; PUBLISHED for results of a published round."""
    round: str
    metric: str
    value: float | None
    unit: str
    runs: tuple[float | None, ...]
    workload: str | None = None
    """Where the logs or the round know it better than the folder's name."""
    division: str | None = None
    """Where the logs tell it, and no folder does."""
    org: str = ""
    """As the logs tell it; empty where they do not."""
    system: str = ""
    """Likewise."""


class Measurements(msgspec.Struct, frozen=True):
    """What is read of a measurements file."""

    reference_accuracy: dict[str, float]


RECORD: Final = msgspec.json.Decoder(RunRecord)
MEASUREMENTS: Final = msgspec.json.Decoder(Measurements)


def training(log: Path) -> TrainingFacts:
    """Read a training log; JudgedError where it cannot be read."""
    source = SourceFile(log)
    stamps: dict[str, Any] = {}
    start = stop = None
    status = ""
    for record in mllog.read(source):
        stamps.setdefault(record.key, record.value)
        if record.key == events.RUN_START and start is None:
            start = record.event.time_ms
        if record.key == events.RUN_STOP:
            stop, status = record.event.time_ms, str(record.event.metadata.get(events.STATUS, ""))
    refuse(source)
    minutes = None if start is None or stop is None else (stop - start) / MS_PER_MINUTE
    return TrainingFacts(stamps=stamps, minutes=minutes, status=status)


def performance(folder: Path, scenario: Scenario) -> Measured:
    """Read the headline of a performance run from LoadGen's summary; JudgedError where there is none."""
    source = SourceFile(folder / SUMMARY)
    summary = summaries.read(source)
    refuse(source)
    if scenario in RATES:
        name, metric = RATES[scenario]
        found = Measured(metric=metric, value=summaries.number(summary.values, name) or 0.0, unit="samples/s")
    else:
        found = latency(summary)
    if not 0 < found.value < math.inf:
        raise JudgedError(f"{source.path}: no {found.metric} in it")
    return found


def latency(summary: summaries.Summary) -> Measured:
    """Give early stopping's estimate of the headline's percentile, the percentile itself where there is no estimate."""
    for name in summary.values:
        match = PERCENTILE.fullmatch(name)
        if match:
            estimates = {float(found[1]): float(found[2]) for found in map(ESTIMATE.search, summary.steps) if found}
            percentile = float(match[1])
            return Measured(metric=f"latency_p{percentile:g}", value=estimates.get(percentile) or summaries.number(summary.values, name) or 0.0, unit="ns")
    return Measured(metric="latency", value=0.0, unit="ns")


def olympic(runs: Sequence[float | None], from_runs: int) -> float | None:
    """Give the mean without the fastest and the slowest of `from_runs` or more; None where a failed run remains."""
    ordered = sorted(math.inf if run is None else run for run in runs)
    kept = ordered[1:-1] if len(ordered) >= max(from_runs, 3) else ordered
    mean = fmean(kept)
    return mean if math.isfinite(mean) else None


def refuse(source: SourceFile) -> None:
    """Raise JudgedError for a file that could not be read."""
    for flaw in source.flaws:
        if flaw.kind in (Kind.MISSING, Kind.UNREADABLE):
            raise JudgedError(f"{source.path}: {flaw.found}")


def served(folder: Path) -> RunRecord:
    """Read podium's record of a LoadGen run; JudgedError where it is not there or not whole."""
    return read(folder / RUN_RECORD, RECORD.decode)


def reference_accuracy(folder: Path) -> dict[str, float]:
    """Read the quality of the served checkpoint from a scenario's measurements; empty where they do not say."""
    for path in sorted(folder.glob("*.json")):
        try:
            return read(path, MEASUREMENTS.decode).reference_accuracy
        except UnreadableError:
            continue
    return {}


def unique(values: Sequence[Any]) -> tuple[Any, ...]:
    """Drop repeated values; the order stays."""
    return tuple({json.dumps(value, sort_keys=True): value for value in values}.values())
