"""The header of a training log, written before the clock starts: submission, round, settings,
environment.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.request import RunRequest
from harness.training.mllog_writer import MllogWriter
from harness.training.state.set_state import TrainingSetState
from suite import __version__, events
from suite.files.layout import ResultsEntry
from suite.rounds import Benchmark, HyperValue, Profile, TrainingRow
from suite.workload import Run

DATA_WORKERS_REASON: Final = "data_workers"
"""Metadata of the settings: why `data.workers` is what `auto` stood for."""
LIMIT_METHOD: Final = "method"
"""Metadata of a limit. Source: mlcommons/logging, training_0.7.0/closed_transformer.yaml."""
DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")


def log_run_header(
    log: MllogWriter,
    request: RunRequest,
    entry: ResultsEntry,
    campaign: TrainingSetState,
    index: int,
    run: Run,
) -> None:
    """Log the stamps, whether the system's file cache was cleared, and init_start."""
    for key, value in collect_run_stamps(request, entry, campaign, index, run).items():
        why = request.workers_chosen if key == events.SETTINGS else ""
        log.log_point(key, value, **({DATA_WORKERS_REASON: why} if why else {}))
    if request.profile is Profile.FULL:
        not_cleared_reason = clear_file_cache()
    else:
        not_cleared_reason = f"profile {request.profile} does not ask for it"
    log.log_point(
        events.CACHE_CLEAR,
        True if not_cleared_reason is None else None,
        **({} if not_cleared_reason is None else {"reason": not_cleared_reason}),
    )
    log.log_start(events.INIT_START)


def collect_run_stamps(
    request: RunRequest, entry: ResultsEntry, campaign: TrainingSetState, index: int, run: Run
) -> dict[str, object]:
    """Return the fields that identify a run, in log order."""
    return {
        events.SUBMISSION_BENCHMARK: request.row.training_name,
        events.SUBMISSION_ORG: entry.org,
        events.SUBMISSION_DIVISION: entry.division,
        events.SUBMISSION_STATUS: "onprem" if request.profile is Profile.FULL else "research",
        events.SUBMISSION_PLATFORM: entry.system,
        events.ROUND: request.round.name,
        events.PROFILE: request.profile,
        events.WORKLOAD: request.name,
        events.VERSION: __version__,
        events.NONCE: campaign.nonce,
        events.RUN_INDEX: index,
        events.SEED: run.seed,
        events.FRAMEWORK: run.framework,
        events.INPUT: run.input,
        events.DEVICE: run.device,
        events.PRECISION: run.precision,
        events.THREADS: run.threads,
        events.WORLD_SIZE: run.world_size,
        events.SETTINGS: dict(run.settings),
        events.COMMAND_LINE: sys.argv,
    }


def log_hyperparameters(
    log: MllogWriter,
    request: RunRequest,
    values: Mapping[str, HyperValue],
    facts: Mapping[str, HyperValue],
    row: TrainingRow,
) -> None:
    """Log the hyper-parameters, the workload's facts, the target, and init_stop."""
    for key, value in {**values, **facts}.items():
        log.log_point(key, value, **describe_method(request.row, request.settings, key))
    log.log_point(events.QUALITY_TARGET, dict(row.target))
    log.log_stop(events.INIT_STOP)


def describe_method(
    row: Benchmark, settings: Mapping[str, HyperValue], key: str
) -> dict[str, HyperValue]:
    """Return the metadata of a hyper-parameter: how a limit is enforced; empty for others."""
    setting = row.settings.get(key)
    if setting is None or not setting.method:
        return {}
    return {LIMIT_METHOD: settings[setting.method]}


def clear_file_cache() -> str | None:
    """Drop the system's file cache before a run, as MLPerf training_rules require; return the
    reason if that is not permitted.
    """
    os.sync()  # only data on disk can be dropped from the cache
    try:
        DROP_CACHES.write_text("3\n")
    except OSError as error:
        return f"{DROP_CACHES}: {error.strerror}"
    return None
