"""Weights as a training would start from, exported without training: of the right network for the
data, and worth nothing.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from harness.data_survey import add_survey_results
from harness.request import RunRequest, resolve_request
from harness.serving.checkpoint_selection import EXPORTED_CHECKPOINT_DECODER
from suite import __version__
from suite.cli import RunOptions
from suite.engine import Precision
from suite.errors import RequestError
from suite.files.layout import (
    CHECKPOINT_RECORD,
    PARTIAL_SUFFIX,
    apply_default_modes,
    compute_folder_sha256,
    locate_checkpoint_folder,
    sync_to_disk,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.records import CheckpointRecord, write_record
from suite.workload import Run

UNTRAINED_SEED: Final = 0
RANDOM_WEIGHTS_ORIGIN: Final = f"random, seed {UNTRAINED_SEED}"
START_WEIGHTS_SETTING: Final = "model.start_weights"
NO_START_WEIGHTS: Final = "random"
"""Value of that setting with which a workload needs no file of start weights."""


def export_initial_weights(workload: str, options: RunOptions, folder: Path) -> RunRequest:
    """Export the weights of an untrained network into a folder; RequestError if the request or the
    data are unusable.
    """
    request = resolve_request(options, workload)
    request.workload.build_training(build_untrained_run(request)).export(folder)
    return request


def build_untrained_run(request: RunRequest) -> Run:
    """Build a run that starts from random weights, with the data's survey."""
    settings: dict[str, Any] = dict(request.settings)
    if START_WEIGHTS_SETTING in settings:
        settings[START_WEIGHTS_SETTING] = NO_START_WEIGHTS
    return replace(
        add_survey_results(request, request.build_run(UNTRAINED_SEED, Precision.FP32)),
        settings=settings,
    )


def store_untrained_checkpoint(request: RunRequest, made: Path, origin: str) -> Path:
    """Write the record of exported weights and move them to the checkpoints; RequestError if a
    training here made the same; return the place.
    """
    sha256 = compute_folder_sha256(made)
    folder = locate_checkpoint_folder(request.options.results.absolute(), request.name, sha256)
    if is_trained_here(folder):
        raise RequestError(
            f"{folder}: these weights were trained here, and their record stays; serve them without"
            " importing"
        )
    write_record(made / CHECKPOINT_RECORD, describe_untrained_weights(request, sha256, origin))
    apply_default_modes(made)
    for path in made.iterdir():
        sync_to_disk(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        write_record(
            folder / CHECKPOINT_RECORD, describe_untrained_weights(request, sha256, origin)
        )
        shutil.rmtree(made)
    else:
        made.rename(folder)
        sync_to_disk(folder.parent)
    return folder


def is_trained_here(folder: Path) -> bool:
    """Return whether a checkpoint has the record of a training."""
    try:
        return not read_untrusted_file(
            folder / CHECKPOINT_RECORD, EXPORTED_CHECKPOINT_DECODER.decode
        ).origin
    except UnreadableError:
        return False


def describe_untrained_weights(request: RunRequest, sha256: str, origin: str) -> CheckpointRecord:
    """Describe weights that were not trained here."""
    return CheckpointRecord(
        workload=request.name,
        round=request.round.name,
        profile=request.profile,
        framework=request.framework,
        sha256=sha256,
        nonce="",
        seed=UNTRAINED_SEED,
        run_index=0,
        training_log="",
        target_reached=False,
        scores={},
        reference_accuracy={},
        settings=request.settings,
        version=__version__,
        origin=origin,
    )


def create_scratch_folder(options: RunOptions, workload: str) -> Path:
    """Return an empty folder for weights in the making, in the file system of the results."""
    folder = options.results.absolute() / "checkpoints" / f"{workload}{PARTIAL_SUFFIX}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def export_random_weights(
    workload: str, options: RunOptions, origin: str = RANDOM_WEIGHTS_ORIGIN
) -> Path:
    """Export random weights, and keep them as a checkpoint; return its folder."""
    made = create_scratch_folder(options, workload)
    try:
        return store_untrained_checkpoint(
            export_initial_weights(workload, options, made), made, origin
        )
    finally:
        shutil.rmtree(made, ignore_errors=True)
