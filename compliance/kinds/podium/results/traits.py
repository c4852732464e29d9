"""The properties of podium's own results that decide whether another is comparable."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from compliance.kinds.podium.results import log_values
from compliance.logs.finite_numbers import is_finite_number
from compliance.results.indexed_result import IndexedResult
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
from suite.human_numbers import format_plain_number
from suite.loadgen.scenario import Scenario
from suite.records import ServedRun
from suite.result import MadeWith
from suite.rounds.settings import GLOBAL_BATCH_SIZE, select_task_settings
from suite.served_identity import drop_unstated
from suite.units import S_PER_MINUTE

TASK_EVENTS: Final = {
    "target": QUALITY_TARGET,
    "training samples": TRAIN_SAMPLES,
    "evaluation samples": EVAL_SAMPLES,
}
"""Properties that must be equal for two run sets -> the event that logs them."""
REPORTED_TRAIT_EVENTS: Final = {
    "device": DEVICE,
    "threads": THREADS,
    "world size": WORLD_SIZE,
    "batch": GLOBAL_BATCH_SIZE,
    "podium": VERSION,
}
"""Properties that may differ between two run sets -> the event that logs them."""
TARGET_QPS_SETTING: Final = "server.target_qps"
SHOWN_HASH_DIGITS: Final = 12
"""Digits of a checkpoint's hash."""
MAX_SEARCH_GAP: Final = 0.05
"""House rule: if a search's lowest INVALID rate is further above its highest VALID one, the search
has not found the peak.
"""


def read_podium_traits(result: IndexedResult, round_name: str) -> MadeWith:
    """Read the properties of what was trained or served, which every round logs alike."""
    if result.scenario:
        return read_served_traits(result)
    return read_training_set_traits(result)


def read_training_set_traits(result: IndexedResult) -> MadeWith:
    """Read the properties of a run set."""
    runs = [log_values.read_training_values(log) for log in result.training_logs]
    stamps = runs[0].stamps
    settings = stamps.get(SETTINGS)
    return MadeWith(
        engine=log_values.format_logged_value(stamps.get(FRAMEWORK)),
        task={key: stamps.get(event) for key, event in TASK_EVENTS.items()}
        | select_task_settings(settings if isinstance(settings, dict) else {}),
        campaign=str(stamps.get(NONCE) or ""),
        said={name: stamps.get(event) for name, event in REPORTED_TRAIT_EVENTS.items()},
        samples_per_second=compute_training_throughput(runs),
    )


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


def read_served_traits(result: IndexedResult) -> MadeWith:
    """Read the properties of a served result."""
    if not result.performance_folders:
        raise JudgedError(f"{result.folder}: no performance run")
    record = log_values.read_loadgen_run_record(result.performance_folders[0])
    in_tree = result.organisation_folder is not None
    lists = log_values.format_calibration_lists(result.folder) if in_tree else None
    return MadeWith(
        engine=drop_unstated(record.stated_system.engine),
        served=record.stated_system.served,
        task={"sample_count": record.system.sample_count} | select_task_settings(record.settings),
        checkpoint_quality=log_values.read_reference_accuracy(result.folder) if in_tree else {},
        campaign=record.system.nonce,
        said=collect_served_system_traits(record) | {"calibration": lists},
        asked=describe_requested_rate(record) if result.scenario is Scenario.SERVER else "",
    )


def collect_served_system_traits(record: ServedRun) -> dict[str, Any]:
    """Return the properties of the system under test that may differ; None of a server that does
    not state one.
    """
    batching = {key: value for key, value in record.settings.items() if key.startswith("batching.")}
    system = record.stated_system
    run_traits = {
        "framework": drop_unstated(system.framework),
        "device": drop_unstated(system.device),
        "threads": system.threads or None,
        "podium": system.version,
        "engine version": system.served.version.value or None if system.served else None,
    }
    return (
        run_traits | {"checkpoint": record.system.checkpoint_sha256[:SHOWN_HASH_DIGITS]} | batching
    )


def describe_requested_rate(record: ServedRun) -> str:
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
    if isinstance(rate, float | int) and rate > 0:
        return f"{format_plain_number(rate, 6)} samples/s"
    return "a share of a probe's rate"
