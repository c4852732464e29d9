"""What scores and manifests read from the logs of a result, by the judge's own readers; nothing here judges."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from compliance.documents.headline import headline_of, indexed
from compliance.documents.podium.inference import RECORD, Measurements, read_measurements, read_scores
from compliance.documents.podium.training import finite, read_log
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import Kind, SourceFile, read_document
from compliance.recognition.path_kind import recognise
from submissions.score.within_run import WithinRun
from suite import registry
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_TEXT, DETAIL, RUN_RECORD
from suite.loadgen.headline import LATENCY, METRICS
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.rounds import RoundKind

PUBLISHED: Final = "published"
PERCENTILES: Final = {
    Scenario.SINGLE_STREAM: "requested_single_stream_target_latency_percentile",
    Scenario.MULTI_STREAM: "requested_multi_stream_target_latency_percentile",
}
"""What a stream's latency is the percentile of: key of the detail log, whose value is a fraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFacts:
    """What one training log says of its run."""

    stamps: Mapping[str, Any]
    """Key -> value of the first event of that name: round, profile, nonce, seed, settings."""
    minutes: float | None
    """run_start to the last run_stop; None where one of them is missing."""
    status: str
    """Of the last run_stop; empty where there is none."""
    epochs: float | None = None
    """Of the last evaluation; None where none says it."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score of the last evaluation, where it is a finite number."""
    target: Mapping[str, float] = field(default_factory=dict)
    """Metric -> the round's target; empty where the round has no row of this log."""


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
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score, of several runs the lowest; empty where the logs do not say."""
    target: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score that the round requires."""
    within_run: tuple[WithinRun, ...] = ()


def training(log: Path) -> TrainingFacts:
    """Read a training log as the judge does; JudgedError where it cannot be read."""
    found = read_log(log, registry.round(), None)
    refuse(found.source)
    stamps = {key: records[0].value for key, records in found.index.items()}
    last = list(found.evaluations())[-1:]
    epochs = float(last[0].epoch) if last and finite(last[0].epoch) else None
    accuracy = {metric: value for each in last for metric, value in each.scores.items() if value is not None}
    target = found.training.target if found.training else {}
    return TrainingFacts(stamps=stamps, minutes=found.minutes, status=str(found.status or ""), epochs=epochs, accuracy=accuracy, target=target)


def performance(folder: Path, scenario: Scenario) -> Measured:
    """Read the headline of a performance run as the judge does, from LoadGen's detail log; JudgedError where there is none."""
    source = SourceFile(folder / DETAIL)
    index = indexed(mllog_lines.read(source))
    refuse(source)
    found = headline_of(index, scenario)
    if found is None or not found.value > 0:
        raise JudgedError(f"{source.path}: no {METRICS[scenario][0]} in it")
    if found.metric != LATENCY:
        return Measured(metric=found.metric, value=found.value, unit="samples/s")
    share = next((record.value for record in index.get(PERCENTILES[scenario], ()) if finite(record.value)), math.nan)
    return Measured(metric=f"latency_p{100 * share:g}", value=found.value, unit="ns")


def refuse(source: SourceFile) -> None:
    """Raise JudgedError for a file that could not be read."""
    for flaw in source.flaws:
        if flaw.kind in (Kind.MISSING, Kind.UNREADABLE):
            raise JudgedError(f"{source.path}: {flaw.found}")


def served(folder: Path) -> RunRecord:
    """Read podium's record of a LoadGen run as the judge does; JudgedError where it is not there or not whole."""
    source = SourceFile(folder / RUN_RECORD)
    record = read_document(source, RECORD)
    if record is None:
        raise JudgedError(f"{source.path}: {source.flaws[0].found}")
    return record


def measurements(folder: Path) -> Measurements | None:
    """Read the measurements of a scenario's folder as the judge does; None where there are none."""
    return read_measurements(recognise(folder).place, [])[0]


def reference_accuracy(folder: Path) -> Mapping[str, float]:
    """Read the quality of the served checkpoint from the measurements of a scenario's folder; empty where they do not say."""
    found = measurements(folder)
    return found.reference_accuracy if found else {}


def served_accuracy(folder: Path) -> Mapping[str, float]:
    """Read the scores of an accuracy run from accuracy.txt; empty where there is none."""
    source = SourceFile(folder / ACCURACY_TEXT)
    return {metric: value for metric, (value, _, _) in read_scores(source).items()} if source.path.is_file() else {}


def required_accuracy(folder: Path, record: RunRecord) -> Mapping[str, float]:
    """Give what a served result must reach: the round's share of the checkpoint's reference accuracy, and the row's threshold."""
    if record.round not in registry.round_names() or registry.kind_of_round(record.round) is not RoundKind.PODIUM:
        return {}
    rules = registry.round(record.round)
    row = rules.benchmarks.get(record.workload)
    serving = next((half for profile, half in row.inference.items() if profile == record.profile), None) if row else None
    needed = {metric: rules.loadgen.accuracy_share * value for metric, value in reference_accuracy(folder).items()}
    for metric, value in serving.threshold.items() if serving else ():
        needed[metric] = max(value, needed.get(metric, value))
    return needed


def lowest(scores: Iterable[Mapping[str, float]]) -> Mapping[str, float]:
    """Give the lowest score of each metric."""
    found: dict[str, float] = {}
    for each in scores:
        found |= {metric: min(value, found.get(metric, value)) for metric, value in each.items()}
    return found


def calibration(folder: Path) -> str | None:
    """Name the lists that a quantised system was calibrated with; None where it was not."""
    found = measurements(folder)
    return ", ".join(sorted({record.list for record in found.calibration.values()})) or None if found else None


def unique(values: Sequence[Any]) -> tuple[Any, ...]:
    """Drop repeated values; the order stays."""
    return tuple({json.dumps(value, sort_keys=True): value for value in values}.values())
