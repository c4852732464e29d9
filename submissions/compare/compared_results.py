"""The results to compare, each with the fields that must be equal and those that may differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from compliance.documents.podium.training import is_finite_number
from compliance.documents.training.log import GLOBAL_BATCH_KEY, read_published_log
from compliance.judge import Judge
from submissions.machines import (
    NOTED_SYSTEM_FIELDS,
    ComparedMachine,
    format_field_value,
    read_system_description_fields,
    select_published_fields,
)
from submissions.pack.bundle import list_bundle_problems
from submissions.result_index import IndexedResult, open_results
from submissions.score import log_values
from submissions.score.score import Score, score_result
from suite import registry
from suite.errors import JudgedError
from suite.events import (
    DEVICE,
    EVAL_SAMPLES,
    FRAMEWORK,
    NONCE,
    QUALITY_TARGET,
    SETTINGS,
    THREADS,
    TRAIN_SAMPLES,
    VERSION,
    WORLD_SIZE,
)
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.rounds import TOKEN_BOUNDS_SETTING, RoundKind
from suite.rounds.compatibility import INFERENCE_HALF, TRAINING_HALF, find_podium_workload
from suite.units import S_PER_MINUTE

TASK_EVENTS: Final = {
    "target": QUALITY_TARGET,
    "training samples": TRAIN_SAMPLES,
    "evaluation samples": EVAL_SAMPLES,
}
"""Properties that must be equal for two training sets -> the event that logs them."""
REPORTED_TRAIT_EVENTS: Final = {
    "device": DEVICE,
    "threads": THREADS,
    "world size": WORLD_SIZE,
    "batch": GLOBAL_BATCH_KEY,
    "podium": VERSION,
}
"""Properties that may differ between two training sets -> the event that logs them."""
TARGET_QPS_SETTING: Final = "server.target_qps"
SHOWN_HASH_DIGITS: Final = 12
"""Digits of a checkpoint's hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSide:
    """One result with the properties that decide whether another is comparable."""

    path: str
    """As given on the command line; the id of a published row."""
    score: Score
    """Its score; the workload has podium's name."""
    precision: str | None
    engine: str | None
    """Engine of inference; framework of training."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """Target and data settings, which must be equal. Empty for published results, where the round
    fixes them.
    """
    quality: Mapping[str, float] = field(default_factory=dict)
    """fp32 quality of the served checkpoint; empty for training."""
    campaign: str = ""
    """Its nonce; empty if the results have none."""
    machine: ComparedMachine = ComparedMachine()
    said: Mapping[str, Any] = field(default_factory=dict)
    """Other properties that may differ; differences are reported. None is unknown."""
    described: Mapping[str, str] = field(default_factory=dict)
    """Fields of its system description that are published with a result."""
    samples_per_second: float | None = None
    """Training throughput, evaluations included: the mean over its runs; None if its logs lack the
    necessary values.
    """
    asked: str = ""
    """The requested rate, if the rate was not searched for."""
    source: str = ""
    """Source of a published row; empty for results that were read here."""
    note: str = ""
    """Remark on a published row."""
    convergence_factor: float | None = None
    """The factor by which its minutes were multiplied, as in MLCommons' tables; None without
    one.
    """

    @property
    def workload_half(self) -> str:
        """The half of the workload that was run."""
        return INFERENCE_HALF if self.score.scenario else TRAINING_HALF


def read_comparison_side(
    path: Path, result: IndexedResult, whole: bool = True, judge: Judge | None = None
) -> ComparisonSide:
    """Read one result; JudgedError if it cannot be read. Results of a bundle that is damaged or
    invalid are not compliant.
    """
    row = score_result(result, judge)
    fields = read_system_description_fields(result, row.round)
    described_traits = {
        name: format_field_value(fields.get(key)) for name, key in NOTED_SYSTEM_FIELDS.items()
    }
    found = ComparisonSide(
        path=str(path),
        score=replace(row, compliant=row.compliant and whole),
        machine=row.machine,
        precision=row.precision,
        **read_result_traits(result, row),
    )
    return replace(
        found, said=described_traits | dict(found.said), described=select_published_fields(fields)
    )


def read_result_traits(result: IndexedResult, row: Score) -> dict[str, Any]:
    """Read the properties of what was trained or served, with the reader of its round."""
    match registry.load_round_kind(row.round):
        case RoundKind.TRAINING:
            return read_published_training_traits(result, row)
        case (
            RoundKind.INFERENCE_TEXT
            | RoundKind.INFERENCE_MLLOG
            | RoundKind.ENDPOINTS
            | RoundKind.ENDPOINTS_CURVE
        ):
            return {"engine": None}
        case RoundKind.PODIUM:
            return (
                read_served_traits(result) if result.scenario else read_training_set_traits(result)
            )


def read_published_training_traits(result: IndexedResult, row: Score) -> dict[str, Any]:
    """Read the properties of a published training run from its log and its system description."""
    log = read_published_log(result.training_logs[0], registry.load_published_training(row.round))
    return {"engine": None, "said": {"batch": log.find_value(GLOBAL_BATCH_KEY)}}


def read_training_set_traits(result: IndexedResult) -> dict[str, Any]:
    """Read the properties of a training set."""
    runs = [log_values.read_training_values(log) for log in result.training_logs]
    stamps = runs[0].stamps
    settings = stamps.get(SETTINGS)
    return {
        "engine": log_values.format_logged_value(stamps.get(FRAMEWORK)),
        "task": (
            {key: stamps.get(event) for key, event in TASK_EVENTS.items()}
            | select_task_settings(settings if isinstance(settings, dict) else {})
        ),
        "campaign": str(stamps.get(NONCE) or ""),
        "said": {name: stamps.get(event) for name, event in REPORTED_TRAIT_EVENTS.items()},
        "samples_per_second": compute_training_throughput(runs),
    }


def compute_training_throughput(runs: Sequence[log_values.TrainingLogValues]) -> float | None:
    """Return the training samples/s of runs, from the first to the last evaluation's epoch; None if
    a run's log lacks the necessary values.
    """
    run_values = [(run.stamps.get(TRAIN_SAMPLES), run.epochs, run.minutes) for run in runs]
    rates = [
        samples * epochs / (minutes * S_PER_MINUTE)
        for samples, epochs, minutes in run_values
        if is_finite_number(samples) and epochs and minutes and minutes > 0
    ]
    return fmean(rates) if len(rates) == len(runs) else None


def read_served_traits(result: IndexedResult) -> dict[str, Any]:
    """Read the properties of a served result."""
    if not result.performance_folders:
        raise JudgedError(f"{result.folder}: no performance run")
    record = log_values.read_loadgen_run_record(result.performance_folders[0])
    return {
        "engine": record.engine,
        "task": {"sample_count": record.sample_count} | select_task_settings(record.settings),
        "quality": log_values.read_reference_accuracy(result.folder)
        if result.organisation_folder
        else {},
        "campaign": record.nonce,
        "said": (
            collect_served_system_traits(record)
            | {
                "calibration": log_values.format_calibration_lists(result.folder)
                if result.organisation_folder
                else None
            }
        ),
        "asked": describe_requested_rate(record) if result.scenario is Scenario.SERVER else "",
    }


def collect_served_system_traits(record: RunRecord) -> dict[str, Any]:
    """Return the properties of the system under test that may differ."""
    batching = {key: value for key, value in record.settings.items() if key.startswith("batching.")}
    run_traits = {
        "framework": record.framework,
        "device": record.device,
        "threads": record.threads,
        "podium": record.version,
    }
    return run_traits | {"checkpoint": record.checkpoint_sha256[:SHOWN_HASH_DIGITS]} | batching


MAX_SEARCH_GAP: Final = 0.05
"""House rule: if a search's lowest INVALID rate is further above its highest VALID one, the search
has not found the peak.
"""


def describe_requested_rate(record: RunRecord) -> str:
    """Return the requested rate of a Server run. Empty if the rate was searched for, with a VALID
    and an INVALID rate close to each other.
    """
    if found := record.searched:
        rate = record.settings.get(TARGET_QPS_SETTING)
        if (
            isinstance(rate, float | int)
            and found.invalid_qps
            and 0 < found.invalid_qps / rate - 1 <= MAX_SEARCH_GAP
        ):
            return ""
    rate = record.settings.get(TARGET_QPS_SETTING)
    return (
        f"{rate:g} samples/s"
        if isinstance(rate, float | int) and rate > 0
        else "a share of a probe's rate"
    )


def select_task_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that define the data, without decoder and number of workers, and the
    bounds that Server was held to.
    """
    return {
        key: value
        for key, value in settings.items()
        if key == TOKEN_BOUNDS_SETTING or (key.startswith("data.") and key != "data.workers")
    }


def judge_comparison_sides(paths: Iterable[Path], problems: list[str]) -> list[ComparisonSide]:
    """Read all results below some paths; add those that cannot be read to `problems`."""
    sides: list[ComparisonSide] = []
    for path in paths:
        try:
            with open_results(path) as results:
                damage_found = list_bundle_problems(path)
                problems += damage_found
                sides += read_path_sides(path, results, problems, whole=not damage_found)
        except JudgedError as error:
            problems.append(str(error))
    return sides


def read_path_sides(
    path: Path, results: Iterable[IndexedResult], problems: list[str], whole: bool
) -> Iterator[ComparisonSide]:
    """Read the results of one path; a shared judge reads common files once."""
    judge = Judge()
    for result in results:
        try:
            yield rename_published_workload(read_comparison_side(path, result, whole, judge))
        except JudgedError as error:
            problems.append(str(error))


def apply_convergence_factor(side: ComparisonSide) -> ComparisonSide:
    """Multiply the minutes of a set that converged too fast by its factor, as MLCommons' tables do;
    sets without a factor stay as they are.
    """
    convergence = side.score.convergence or {}
    factor = convergence.get("factor")
    if convergence.get("headline") != "scaled" or not isinstance(factor, float):
        return side
    score = side.score
    return replace(
        side,
        convergence_factor=factor,
        score=replace(
            score,
            value=None if score.value is None else score.value * factor,
            runs=tuple(None if run is None else run * factor for run in score.runs),
        ),
    )


def rename_published_workload(published_side: ComparisonSide) -> ComparisonSide:
    """Give a published workload podium's name, so that rounds that name it differently match."""
    if published_side.score.profile != log_values.PUBLISHED_PROFILE:
        return published_side
    return replace(
        published_side,
        score=replace(
            published_side.score,
            workload=find_podium_workload(
                published_side.workload_half, published_side.score.workload
            ),
        ),
    )
