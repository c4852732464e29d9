"""After run_stop: exports the weights, scores them once, and stores them under their hash with the
end of the log.
"""

import math
import shutil
from pathlib import Path
from typing import Final

import click
import msgspec

from harness.failures import noted, sentence
from harness.request import Request
from harness.training.energy import log_energy
from harness.training.loop import Ending, Outcome
from harness.training.mllog_writer import Log
from harness.training.reference_accuracy import reference_accuracy
from harness.training.run_context import Job
from harness.training.state import attempts
from harness.training.state.set_state import Campaign, state_of
from suite import __version__, events
from suite.errors import JudgedError, PodiumError, RequestError
from suite.files.json_files import write_json
from suite.files.layout import CHECKPOINT_RECORD, checkpoint_folder, folder_sha256, sync
from suite.files.untrusted_files import UnreadableError, read
from suite.records import CheckpointRecord, write_record
from suite.workload import Scores, Training

STOPPED: Final = "stopped.json"
EXPORTED: Final = "exported"


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose clock has stopped; the remaining steps can be repeated after an interruption."""

    outcome: Outcome
    log_offset: int
    """Log size in bytes after run_stop."""
    sha256: str
    """Hash of the exported weights."""


DECODER: Final = msgspec.json.Decoder(Stopped)
RECORD: Final = msgspec.json.Decoder(CheckpointRecord)


def export(training: Training, outcome: Outcome, log: Log, state: Path) -> Stopped:
    """Write the weights into the run's state folder, and record that the clock has stopped."""
    folder = state / EXPORTED
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    training.export(folder)
    for path in folder.iterdir():
        sync(path)
    stopped = Stopped(outcome=outcome, log_offset=log.offset, sha256=folder_sha256(folder))
    write_json(state / STOPPED, msgspec.to_builtins(stopped))
    return stopped


def stopped_run(state: Path) -> Stopped | None:
    """Read the record that `export` wrote; None if the clock has not stopped."""
    try:
        return read(state / STOPPED, DECODER.decode)
    except UnreadableError as error:
        if error.missing:
            return None
        raise RequestError(
            f"{error.path}: cannot be read ({error.reason}); start a new run without --resume"
        ) from error


def seal(job: Job, campaign: Campaign, index: int, stopped: Stopped) -> str:
    """Score the exported weights, finish the run's log, and move the weights to their final place;
    return their hash.

    A second call can recover from an interruption at any point: the weights stay until the log is
    finished.
    """
    request, results, path = job.request, job.place.results, job.log_path(index)
    exported = state_of(results, request.name, index) / EXPORTED
    if not path.exists():
        sha256 = stopped.sha256
        click.echo(f"{request.name}: scoring the checkpoint {sha256[:12]}")
        reference = scored(request, exported, campaign.seed + index)
        write_record(
            exported / CHECKPOINT_RECORD,
            record_of(request, campaign, index, sha256, stopped.outcome, reference),
        )
        with Log(path) as log:
            log.truncate(stopped.log_offset)
            log.point(events.CHECKPOINT, sha256)
            log.point(events.REFERENCE_ACCURACY, dict(reference), checkpoint_sha256=sha256)
            log_energy(log, job.telemetry_path(index))
            attempts.finish(job, campaign, index, log, stopped.outcome.ending)
    if exported.exists():  # else an interruption came between the last two steps
        attempts.exported(job, campaign, stopped.sha256, exported)
        place(exported, results, request.name)
    return stopped.sha256


def scored(request: Request, exported: Path, seed: int) -> Scores:
    """Score the weights; JudgedError if inference fails or a score is not a number."""
    try:
        reference = reference_accuracy(request, exported, seed)
    except PodiumError:
        raise
    except Exception as error:
        raise JudgedError(
            f"{request.name}: the checkpoint could not be scored: {sentence(error)};"
            f" {noted(exported.parent, 0, error)}"
        ) from error
    if not all(math.isfinite(value) for value in reference.values()):
        raise JudgedError(
            f"{request.name}: the checkpoint's reference accuracy is not a number:"
            f" {dict(reference)}"
        )
    return reference


def record_of(
    request: Request,
    campaign: Campaign,
    index: int,
    sha256: str,
    outcome: Outcome,
    reference: Scores,
) -> CheckpointRecord:
    """Build the checkpoint's record."""
    return CheckpointRecord(
        workload=request.name,
        round=request.round.name,
        profile=request.profile,
        framework=request.options.framework,
        sha256=sha256,
        nonce=campaign.nonce,
        seed=campaign.seed + index,
        run_index=index,
        training_log=f"{campaign.logs}/result_{index}.txt",
        target_reached=outcome.ending is Ending.REACHED,
        scores=outcome.scores,
        reference_accuracy=reference,
        settings=request.settings,
        version=__version__,
    )


def place(exported: Path, results: Path, workload: str) -> None:
    """Move recorded weights to their final place; if the same weights are already there, replace
    only the record.
    """
    try:
        record = read(exported / CHECKPOINT_RECORD, RECORD.decode)
    except UnreadableError as error:
        raise RequestError(
            f"{error.path}: cannot be read ({error.reason}); start a new run without --resume"
        ) from error
    folder = checkpoint_folder(results, workload, record.sha256)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        write_record(folder / CHECKPOINT_RECORD, record)
        shutil.rmtree(exported)
    else:
        exported.rename(folder)
        sync(folder.parent)
