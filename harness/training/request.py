"""Turns the options of `podium train` into a complete `TrainingRequest`, before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.engine_choice import check_engine_before_training
from harness.machine.device import has_several_gpus
from harness.machine.system_description import describe_system
from harness.request import RunRequest, resolve_request
from harness.training.plugin_values import check_hyperparameters
from suite.cli import RunOptions
from suite.errors import RequestError
from suite.files.layout import ResultsEntry
from suite.process.launcher import read_launcher_variable
from suite.rounds import Division, HyperValue, TrainingRow
from suite.rounds.legality import check_hyperparameter_constraints


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequest:
    """A complete request to train; nothing in it is resolved again."""

    request: RunRequest
    row: TrainingRow
    hyper: Mapping[str, HyperValue]
    """Hyper-parameters as logged."""
    entry: ResultsEntry
    """Final place of the results."""
    system: Mapping[str, Any]
    """The system description."""


def resolve_training_request(workload: str, options: RunOptions) -> TrainingRequest:
    """Resolve a request to train on this rank; refuse what the judge would reject, before anything
    else.
    """
    check_single_device(workload, options.device)
    request = resolve_request(options, workload, local_rank=read_local_rank())
    check_engine_before_training(request)
    row = require_training_row(request)
    hyper = request.workload.select_hyperparameters(request.round, request.settings)
    check_hyperparameters(request, row, hyper)
    check_training_legality(request, row, hyper)
    entry = request.build_entry(row.division, request.framework, request.precision)
    return TrainingRequest(
        request=request,
        row=row,
        hyper=hyper,
        entry=entry,
        system=describe_system(entry, request.described),
    )


def read_local_rank() -> int:
    """Return this rank's number on its machine; 0 without torchrun."""
    if read_launcher_variable("WORLD_SIZE", 1) > 1:
        return read_launcher_variable("LOCAL_RANK")
    return 0


def check_single_device(workload: str, device: str) -> None:
    """Refuse several devices: each has a rank of its own, which torchrun starts."""
    if has_several_gpus(device):
        start = f"torchrun --nproc-per-node N -m harness train {workload}"
        raise RequestError(
            f"--device {device}: training has one rank for each GPU, started by {start}; podium"
            " infer serves on several"
        )


def require_training_row(request: RunRequest) -> TrainingRow:
    """Return the workload's training row of this profile; RequestError if the round has none."""
    row = request.row.training.get(request.profile)
    if row is None:
        known = ", ".join(request.row.training) or "none"
        raise RequestError(
            f"{request.name} has no training rules in profile {request.profile} of round"
            f" {request.round.name}; it has: {known}"
        )
    return row


def check_training_legality(
    request: RunRequest, row: TrainingRow, hyper: Mapping[str, HyperValue]
) -> None:
    """Before the clock starts, refuse hyper-parameters and fixed settings that the judge would
    reject in the closed division.
    """
    if row.division is not Division.CLOSED:
        return
    found = [f"{key} is missing" for key in row.required if key not in hyper]
    for index, constraint in enumerate(row.constraints):
        source = request.round.find_source(
            f"{request.name}.training.{request.profile}.constraints.{index}"
        )
        found += [
            f"{violation.key} is {violation.found!r}; it must be {violation.required} ({source})"
            for violation in check_hyperparameter_constraints(
                [constraint], {**request.settings, **hyper}
            )
        ]
    if found:
        raise RequestError(f"not allowed in the closed division: {'; '.join(found)}")
