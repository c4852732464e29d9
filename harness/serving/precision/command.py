"""`podium precision`: accuracy and speed of every engine and precision, as a study."""

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import Final

import click

from harness.request import RunRequest, resolve_request
from harness.serving.checkpoint_selection import choose_checkpoint
from harness.serving.precision.combinations import (
    filter_runnable_combinations,
    iterate_combinations,
)
from harness.serving.studies.driver import measure_system
from harness.serving.studies.result_runs import find_result_threads
from harness.serving.studies.system import ServedSystem, StudyOptions, set_up_study_system
from suite.cli import RunOptions
from suite.columns import Column, Table
from suite.errors import MissingError, RequestError
from suite.loadgen.scenario import Scenario
from suite.studies.kind import PlannedRun
from suite.studies.precision import PRECISION
from suite.terms import Precision

Pairs = Sequence[tuple[str, Precision]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An engine in a number format that is refused before anything starts."""

    engine: str
    precision: Precision
    error: RequestError | MissingError


REFUSAL_TABLE: Final[Table[Refusal]] = Table(
    columns=(
        Column("engine", lambda each: each.engine),
        Column("precision", lambda each: each.precision),
        Column("why", lambda each: str(each.error)),
    )
)


def compare_precisions(
    workload: str, options: RunOptions, *, engine: str | None, study_options: StudyOptions
) -> None:
    """Measure every combination that this machine can run, print and save the table; JudgedError if
    a row is not compliant.
    """
    with redirect_stdout(sys.stdout if study_options.output_format == "text" else sys.stderr):
        request = add_precision_settings(resolve_request(options, workload))
        chosen = choose_checkpoint(request, study_options.checkpoint)
        pairs = filter_runnable_combinations(request, list(iterate_combinations(request, engine)))
        if not pairs:
            raise MissingError(
                f"{workload}: no engine on this machine supports the request; podium doctor"
                f" {workload} says why"
            )
        asked = replace(study_options, values={"systems": pairs}, checkpoint=chosen.folder)
        system = set_up_first_system(request, asked, pairs)
        system.result_threads = find_usable_threads(system, pairs)
    measure_system(PRECISION, system, asked)


def add_precision_settings(request: RunRequest) -> RunRequest:
    """Add the row's settings for this table; the user's own take precedence."""
    added = tuple(f"{key}={value}" for key, value in request.row.precision_settings.items())
    if added:
        return resolve_request(
            replace(request.options, assignments=(*added, *request.options.assignments)),
            request.name,
        )
    return request


def set_up_first_system(
    request: RunRequest, study_options: StudyOptions, pairs: Pairs
) -> ServedSystem:
    """Set the first combination up that is not refused; if all are, print why, and raise the error
    of the first.
    """
    refused: list[Refusal] = []
    for engine, precision in pairs:
        options = replace(request.options, engine=engine, precision=precision)
        try:
            return set_up_study_system(PRECISION, request.name, options, study_options)
        except (RequestError, MissingError) as error:
            refused.append(Refusal(engine=engine, precision=precision, error=error))
    first = refused[0].error
    if len({str(each.error) for each in refused}) == 1:
        raise first
    click.echo(REFUSAL_TABLE.format_aligned_text(refused))
    raise type(first)(f"{request.name}: all {len(refused)} engines and precisions are refused")


def find_usable_threads(system: ServedSystem, pairs: Pairs) -> int:
    """Return the CPU threads of the checkpoint's results, since runs with others would have to be
    made again; 0 if there are none, or this process may not use as many.
    """
    planned = (
        PlannedRun(scenario=Scenario.OFFLINE, engine=engine, precision=precision)
        for engine, precision in pairs
    )
    entries = (
        replace(system.setup.entry, system=system.name_planned_system(each)) for each in planned
    )
    name, sha256 = system.setup.request.row.inference_name, system.setup.checkpoint.record.sha256
    threads = find_result_threads(entries, name, sha256)
    return threads if threads <= len(os.sched_getaffinity(0)) else 0
