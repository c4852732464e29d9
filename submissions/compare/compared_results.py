"""The results to compare, each with the fields that must be equal and those that may differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from compliance.documents.inference.entry_files import read_measurements
from compliance.documents.podium.training import finite
from compliance.documents.training.log import BATCH, read_log
from compliance.judge import Judge
from submissions.compare.machines import (
    DESCRIBED,
    Machine,
    described,
    fields_of,
    machine_in,
    worded,
)
from submissions.pack.bundle import damage
from submissions.result_index import Result, opened
from submissions.score import log_values
from submissions.score.score import Score, score
from suite import registry
from suite.errors import JudgedError
from suite.events import (
    DEVICE,
    EVAL_SAMPLES,
    FRAMEWORK,
    NONCE,
    PRECISION,
    QUALITY_TARGET,
    SETTINGS,
    THREADS,
    TRAIN_SAMPLES,
    VERSION,
    WORLD_SIZE,
)
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.rounds import RoundKind
from suite.rounds.compatibility import INFERENCE, TRAINING, workload_of

TASK: Final = {
    "target": QUALITY_TARGET,
    "training samples": TRAIN_SAMPLES,
    "evaluation samples": EVAL_SAMPLES,
}
"""Properties that must be equal for two training sets -> the event that logs them."""
STAMPED: Final = {
    "device": DEVICE,
    "threads": THREADS,
    "world size": WORLD_SIZE,
    "batch": BATCH,
    "podium": VERSION,
}
"""Properties that may differ between two training sets -> the event that logs them."""
TARGET_QPS: Final = "server.target_qps"
S_PER_MINUTE: Final = 60
SHOWN: Final = 12
"""Digits of a checkpoint's hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One result with the properties that decide whether another is comparable."""

    path: str
    """As given on the command line; the id of a published row."""
    score: Score
    """Its score; the workload has podium's name."""
    precision: str | None
    engine: str | None
    """Engine of inference; framework of training."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """Target and data settings, which must be equal. Empty for published results, whose round fixes
    them.
    """
    quality: Mapping[str, float] = field(default_factory=dict)
    """Quality of the served checkpoint in fp32; empty for training."""
    campaign: str = ""
    """Its nonce; empty if the results have none."""
    machine: Machine = Machine()
    said: Mapping[str, Any] = field(default_factory=dict)
    """What else may differ and is then reported; None is unknown."""
    described: Mapping[str, str] = field(default_factory=dict)
    """Fields of its system's description that are published beside a result."""
    samples_per_second: float | None = None
    """Training throughput, evaluations included: the mean over its runs; None if its logs do not
    allow it.
    """
    asked: str = ""
    """The requested rate, if the rate was not searched for."""
    source: str = ""
    """Source of a published row; empty for results that were read here."""
    note: str = ""
    """Remark on a published row."""

    @property
    def half(self) -> str:
        """The half of the workload that was run."""
        return INFERENCE if self.score.scenario else TRAINING


def side(path: Path, result: Result, whole: bool = True, judge: Judge | None = None) -> Side:
    """Read one result; JudgedError if it cannot be read. Results of a bundle that is damaged or
    invalid are not compliant.
    """
    row = score(result, judge)
    fields = described(result, row.round)
    told = {name: worded(fields.get(key)) for name, key in DESCRIBED.items()}
    found = Side(
        path=str(path),
        score=replace(row, compliant=row.compliant and whole),
        machine=machine_in(fields),
        **traits(result, row),
    )
    return replace(found, said=told | dict(found.said), described=fields_of(fields))


def traits(result: Result, row: Score) -> dict[str, Any]:
    """Read what was trained or served, with its round's reader."""
    match registry.kind_of_round(row.round):
        case RoundKind.TRAINING:
            return published_training(result, row)
        case RoundKind.INFERENCE:
            return published_inference(result)
        case RoundKind.SERVED:
            return {"precision": None, "engine": None}
        case RoundKind.PODIUM:
            return served_traits(result) if result.scenario else trained_traits(result)


def published_training(result: Result, row: Score) -> dict[str, Any]:
    """Read what a published training log states about its run; its system description states
    more.
    """
    log = read_log(result.logs[0], registry.published_training(row.round))
    return {"precision": None, "engine": None, "said": {"batch": log.value(BATCH)}}


def published_inference(result: Result) -> dict[str, Any]:
    """Read what was filed for a published entry."""
    filed = (
        read_measurements(result.measurements, result.system, result.folder.name).fields
        if result.home
        else {}
    )
    precision = filed.get("weight_data_types")
    return {
        "precision": precision.casefold() if isinstance(precision, str) else None,
        "engine": None,
    }


def trained_traits(result: Result) -> dict[str, Any]:
    """Read the properties of a training set."""
    runs = [log_values.training(log) for log in result.logs]
    stamps = runs[0].stamps
    settings = stamps.get(SETTINGS)
    return {
        "precision": text_of(stamps.get(PRECISION)),
        "engine": text_of(stamps.get(FRAMEWORK)),
        "task": (
            {key: stamps.get(event) for key, event in TASK.items()}
            | data_settings(settings if isinstance(settings, dict) else {})
        ),
        "campaign": str(stamps.get(NONCE) or ""),
        "said": {name: stamps.get(event) for name, event in STAMPED.items()},
        "samples_per_second": throughput(runs),
    }


def throughput(runs: Sequence[log_values.TrainingFacts]) -> float | None:
    """Return the training samples/s of runs, from the first to the last evaluation's epoch; None if
    a run does not allow it.
    """
    told = [(run.stamps.get(TRAIN_SAMPLES), run.epochs, run.minutes) for run in runs]
    rates = [
        samples * epochs / (minutes * S_PER_MINUTE)
        for samples, epochs, minutes in told
        if finite(samples) and epochs and minutes and minutes > 0
    ]
    return fmean(rates) if len(rates) == len(runs) else None


def text_of(value: object) -> str | None:
    """Format a logged value; None if it is missing."""
    return None if value is None else str(value)


def served_traits(result: Result) -> dict[str, Any]:
    """Read the properties of a served result."""
    if not result.performance:
        raise JudgedError(f"{result.folder}: no performance run")
    record = log_values.served(result.performance[0])
    return {
        "precision": record.precision,
        "engine": record.engine,
        "task": {"sample_count": record.sample_count} | data_settings(record.settings),
        "quality": log_values.reference_accuracy(result.folder) if result.home else {},
        "campaign": record.nonce,
        "said": (
            served_said(record)
            | {"calibration": log_values.calibration(result.folder) if result.home else None}
        ),
        "asked": rate_asked(record) if result.scenario is Scenario.SERVER else "",
    }


def served_said(record: RunRecord) -> dict[str, Any]:
    """Return the properties of the system under test that may differ."""
    batching = {key: value for key, value in record.settings.items() if key.startswith("batching.")}
    plain = {
        "framework": record.framework,
        "device": record.device,
        "threads": record.threads,
        "podium": record.version,
    }
    return plain | {"checkpoint": record.checkpoint_sha256[:SHOWN]} | batching


SEARCHED: Final = 0.05
"""House rule: a search whose lowest INVALID rate is further above its VALID one has not found the
peak.
"""


def rate_asked(record: RunRecord) -> str:
    """Return the rate that Server was run at; empty if it was searched, between a VALID and an
    INVALID rate that are close.
    """
    if found := record.searched:
        rate = record.settings.get(TARGET_QPS)
        if (
            isinstance(rate, float | int)
            and found.invalid_qps
            and 0 < found.invalid_qps / rate - 1 <= SEARCHED
        ):
            return ""
    rate = record.settings.get(TARGET_QPS)
    return (
        f"{rate:g} samples/s"
        if isinstance(rate, float | int) and rate > 0
        else "a share of what a probe took"
    )


def data_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that define the data, without decoder and number of workers."""
    return {
        key: value
        for key, value in settings.items()
        if key.startswith("data.") and key != "data.workers"
    }


def read(paths: Iterable[Path], problems: list[str]) -> list[Side]:
    """Read all results below some paths; what cannot be read is reported in `problems`."""
    sides: list[Side] = []
    for path in paths:
        try:
            with opened(path) as results:
                broken = damage(path)
                problems += broken
                sides += read_all(path, results, problems, whole=not broken)
        except JudgedError as error:
            problems.append(str(error))
    return sides


def read_all(
    path: Path, results: Iterable[Result], problems: list[str], whole: bool
) -> Iterator[Side]:
    """Read the results of one path; a shared judge reads common files once."""
    judge = Judge()
    for result in results:
        try:
            yield named(side(path, result, whole, judge))
        except JudgedError as error:
            problems.append(str(error))


def named(one: Side) -> Side:
    """Rename a published workload to podium's name, so that rounds with different names for it
    match.
    """
    if one.score.profile != log_values.PUBLISHED:
        return one
    return replace(
        one, score=replace(one.score, workload=workload_of(one.half, one.score.workload))
    )
