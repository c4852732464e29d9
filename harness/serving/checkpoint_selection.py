"""Selects the checkpoint to serve: the newest that reached the target, or the one the user names,
always validated against its record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from harness.request import RunRequest
from suite.errors import RequestError
from suite.files.layout import CHECKPOINT_RECORD, CHECKPOINTS_FOLDER, compute_folder_sha256
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.records import CheckpointRecord, is_published_model

STAND_IN_ORIGIN: Final = "random, in place of weights that are yet to be trained"
"""Origin of weights that a dry run of a campaign serves."""
EXPORTED_CHECKPOINT_DECODER: Final = msgspec.json.Decoder(CheckpointRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedCheckpoint:
    """Exported weights and their origin."""

    folder: Path
    record: CheckpointRecord


def choose_checkpoint(request: RunRequest, named: Path | None) -> ExportedCheckpoint:
    """Return the weights to serve; RequestError if there are none, or if they do not match their
    record.
    """
    chosen = read_exported_checkpoint(named) if named else select_newest_checkpoint(request)
    record = chosen.record
    if record.workload != request.name:
        raise RequestError(
            f"{chosen.folder} is a checkpoint of {record.workload}, not of {request.name}"
        )
    for kind, found, wanted in (
        ("profile", record.profile, request.profile.value),
        ("round", record.round, request.round.name),
    ):
        if found != wanted:
            raise RequestError(f"{chosen.folder} was trained in {kind} {found}, not {wanted}")
    if compute_folder_sha256(chosen.folder) != record.sha256:
        raise RequestError(
            f"{chosen.folder} does not match its record: the hash of its files differs"
        )
    return chosen


def select_newest_checkpoint(request: RunRequest) -> ExportedCheckpoint:
    """Return the newest checkpoint of this workload and profile that reached its target."""
    found = [
        entry
        for entry in iterate_checkpoints(
            request.options.results.absolute() / CHECKPOINTS_FOLDER / request.name
        )
        if is_selectable_checkpoint(entry.record, request)
    ]
    if not found:
        raise RequestError(
            f"no checkpoint of {request.name} in {request.options.results} has reached its target"
            f" in profile {request.profile}: run podium train {request.name}, or name one with"
            " --checkpoint"
        )
    return max(found, key=lambda entry: (entry.folder / CHECKPOINT_RECORD).stat().st_mtime_ns)


def describe_missing_training_set(request: RunRequest, checkpoint: ExportedCheckpoint) -> str:
    """Say that the organisation's results do not hold the training log of a checkpoint, as
    entry.checkpoint of `podium check` requires; empty if they do, or if none is required.
    """
    options, sha256 = request.options, checkpoint.record.sha256
    if is_published_model(request.row.inference.get(request.profile), checkpoint.record.origin):
        return ""
    pattern = f"*/{options.org}/results/*/{request.row.training_name}/result_*.txt"
    if any(sha256 in path.read_text("utf-8", "replace") for path in options.results.glob(pattern)):
        return ""
    log = checkpoint.record.training_log
    copy = f"; copy {Path(log).parent} here from where it was trained" if log else ""
    return (
        f"{request.name}: the checkpoint's run set is not in {options.results} under --org"
        f" {options.org}, and podium check accepts these runs only together with it{copy}"
    )


def iterate_checkpoints(folder: Path) -> Iterator[ExportedCheckpoint]:
    """Yield the checkpoints of a folder that have a readable record."""
    for path in sorted(folder.glob(f"*/{CHECKPOINT_RECORD}")):
        yield read_exported_checkpoint(path.parent)


def is_selectable_checkpoint(record: CheckpointRecord, request: RunRequest) -> bool:
    """Check whether a checkpoint may be selected without being named."""
    return (
        record.target_reached
        and record.profile == request.profile
        and record.round == request.round.name
    )


def read_exported_checkpoint(folder: Path) -> ExportedCheckpoint:
    """Read a checkpoint's record; RequestError if it is missing or broken."""
    path = folder / CHECKPOINT_RECORD
    try:
        record = read_untrusted_file(path, EXPORTED_CHECKPOINT_DECODER.decode)
    except UnreadableError as error:
        raise RequestError(f"--checkpoint {folder}: {CHECKPOINT_RECORD}: {error.reason}") from error
    return ExportedCheckpoint(folder=folder.absolute(), record=record)
