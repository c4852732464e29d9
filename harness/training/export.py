"""After run_stop: exports the weights, scores them once, and stores them under their hash with the
end of the log.
"""

import math
import shutil
from pathlib import Path
from typing import Final

import click
import msgspec

from harness.failures import describe_exception, describe_machine_error, write_traceback
from harness.request import RunRequest
from harness.training.energy import log_telemetry_digest
from harness.training.loop import RunEnding, TrainingOutcome
from harness.training.mllog_writer import MllogWriter
from harness.training.reference_accuracy import score_reference_accuracy
from harness.training.run_context import TrainingJob
from harness.training.state import attempts
from harness.training.state.set_state import TrainingSetState, get_run_state_folder
from suite import __version__, events
from suite.console.screen import ACTIVITY
from suite.errors import JudgedError, MachineError, PodiumError, RequestError
from suite.files.json_files import write_json
from suite.files.layout import (
    CHECKPOINT_RECORD,
    apply_default_modes,
    compute_folder_sha256,
    locate_checkpoint_folder,
    sync_to_disk,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.records import CheckpointRecord, write_record
from suite.workload import Scores, Training

STOPPED_RUN_FILE: Final = "stopped.json"
EXPORT_FOLDER: Final = "exported"


class StoppedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose clock has stopped; the remaining steps can be repeated after an interruption."""

    outcome: TrainingOutcome
    log_offset: int
    """Log size in bytes after run_stop."""
    sha256: str
    """Hash of the exported weights."""


STOPPED_RUN_DECODER: Final = msgspec.json.Decoder(StoppedRun)
CHECKPOINT_RECORD_DECODER: Final = msgspec.json.Decoder(CheckpointRecord)


def export_weights(
    training: Training, outcome: TrainingOutcome, log: MllogWriter, state: Path
) -> StoppedRun:
    """Write the weights into the run's state folder, and record that the clock has stopped."""
    folder = state / EXPORT_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    training.export(folder)
    apply_default_modes(folder)
    for path in folder.iterdir():
        sync_to_disk(path)
    stopped = StoppedRun(
        outcome=outcome, log_offset=log.offset, sha256=compute_folder_sha256(folder)
    )
    write_json(state / STOPPED_RUN_FILE, msgspec.to_builtins(stopped))
    return stopped


def read_stopped_run(state: Path) -> StoppedRun | None:
    """Read the record that `export_weights` wrote; None if the clock has not stopped."""
    try:
        return read_untrusted_file(state / STOPPED_RUN_FILE, STOPPED_RUN_DECODER.decode)
    except UnreadableError as error:
        if error.missing:
            return None
        raise RequestError(
            f"{error.path}: cannot be read ({error.reason}); start a new run without --resume"
        ) from error


def seal_training_run(
    job: TrainingJob, campaign: TrainingSetState, index: int, stopped: StoppedRun
) -> str:
    """Score the exported weights, finish the run's log, and move the weights to their final place;
    return their hash.

    A second call can recover from an interruption at any point: the weights stay until the log is
    finished.
    """
    request, results, path = job.request, job.working_entry.results, job.get_log_path(index)
    exported = get_run_state_folder(results, request.name, index) / EXPORT_FOLDER
    if not path.exists():
        sha256 = stopped.sha256
        scoring = f"{request.name}: scoring the checkpoint {sha256[:12]}"
        click.echo(scoring)
        ACTIVITY.mark_shown(scoring)
        reference = score_exported_weights(request, exported, campaign.seed + index)
        write_record(
            exported / CHECKPOINT_RECORD,
            build_checkpoint_record(request, campaign, index, sha256, stopped.outcome, reference),
        )
        with MllogWriter(path) as log:
            log.truncate_log(stopped.log_offset)
            log.log_point(events.CHECKPOINT, sha256)
            log.log_point(events.REFERENCE_ACCURACY, dict(reference), checkpoint_sha256=sha256)
            log_telemetry_digest(log, job.get_telemetry_path(index))
            attempts.record_run_end(job, campaign, index, log, stopped.outcome.ending)
    if exported.exists():  # else an interruption came between the last two steps
        attempts.record_export(job, campaign, stopped.sha256, exported)
        move_exported_weights(exported, results, request.name)
    return stopped.sha256


def score_exported_weights(request: RunRequest, exported: Path, seed: int) -> Scores:
    """Score the weights; JudgedError if inference fails or a score is not a number."""
    try:
        reference = score_reference_accuracy(request, exported, seed)
    except PodiumError:
        raise
    except Exception as error:
        machine = describe_machine_error(error, folder=exported)
        raise (MachineError if machine else JudgedError)(
            f"{request.name}: the checkpoint could not be scored:"
            f" {describe_exception(error, folder=exported)};"
            f" {write_traceback(exported.parent, 0, error)}"
        ) from error
    if not all(math.isfinite(value) for value in reference.values()):
        raise JudgedError(
            f"{request.name}: the checkpoint's reference accuracy is not a number:"
            f" {dict(reference)}"
        )
    return reference


def build_checkpoint_record(
    request: RunRequest,
    campaign: TrainingSetState,
    index: int,
    sha256: str,
    outcome: TrainingOutcome,
    reference: Scores,
) -> CheckpointRecord:
    """Build the checkpoint's record."""
    return CheckpointRecord(
        workload=request.name,
        round=request.round.name,
        profile=request.profile,
        framework=request.framework,
        sha256=sha256,
        nonce=campaign.nonce,
        seed=campaign.seed + index,
        run_index=index,
        training_log=f"{campaign.logs}/result_{index}.txt",
        target_reached=outcome.ending is RunEnding.REACHED,
        scores=outcome.scores,
        reference_accuracy=reference,
        settings=request.settings,
        version=__version__,
    )


def move_exported_weights(exported: Path, results: Path, workload: str) -> None:
    """Move recorded weights to their final place; if the same weights are already there, replace
    only the record.
    """
    try:
        record = read_untrusted_file(exported / CHECKPOINT_RECORD, CHECKPOINT_RECORD_DECODER.decode)
    except UnreadableError as error:
        raise RequestError(
            f"{error.path}: cannot be read ({error.reason}); start a new run without --resume"
        ) from error
    folder = locate_checkpoint_folder(results, workload, record.sha256)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        write_record(folder / CHECKPOINT_RECORD, record)
        shutil.rmtree(exported)
    else:
        exported.rename(folder)
        sync_to_disk(folder.parent)
