"""`podium sweep`: measures the studies of all subjects in turn, and prints their tables."""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import click

from harness.machine.device import resolve_device
from harness.request import check_request_folders
from harness.serving.studies.driver import (
    format_study_lines,
    hold_study_results,
    measure_studies,
    open_study_sessions,
)
from harness.serving.studies.system import StudyOptions
from harness.serving.sweep.engines import settle_sweep_engines
from harness.serving.sweep.subjects import SweepOptions, set_up_swept_systems
from suite.cli import RunOptions
from suite.errors import JudgedError
from suite.studies.measured import MeasuredStudy, describe_study
from suite.studies.sweep import SWEEP


def run_sweep(request: SweepOptions, options: RunOptions, repeats: int, output_format: str) -> None:
    """Measure, print and save; JudgedError if no point could be measured."""
    with redirect_stdout(sys.stderr if output_format != "text" else sys.stdout):
        check_request_folders(options)
        resolve_device(options.device)  # several are refused
        request = settle_sweep_engines(options, request)
        values = {
            "engines": request.engines,
            "precisions": request.precisions,
            "batches": request.batches,
            "seconds": request.seconds,
            "seed": request.seed,
            "within_ms": request.within_ms,
        }
        study_options = StudyOptions(values=values, checkpoint=request.checkpoint, repeats=repeats)
        systems = set_up_swept_systems(options, study_options, request)
        sessions = open_study_sessions(SWEEP, systems, study_options)
        with hold_study_results(systems[0]):
            measured = measure_studies(sessions, repeats)
    print_studies(measured, output_format)
    failures = [SWEEP.describe_failure(study.answer) for study, _ in measured]
    if all(failures):
        raise JudgedError(failures[0])


def print_studies(measured: Sequence[tuple[MeasuredStudy, Path]], output_format: str) -> None:
    """Print the studies in the requested form."""
    if output_format == "json":
        told = [describe_study(study) for study, _ in measured]
        click.echo(json.dumps({"studies": told}, indent=2))
        return
    if output_format == "csv":
        rows = [row for study, _ in measured for row in study.rows]
        click.echo(SWEEP.table.format_csv_text(rows), nl=False)
        return
    tables = ("\n".join(format_study_lines(study)) for study, _ in measured)
    click.echo("\n\n".join(tables))
    click.echo("\n" + "\n".join(f"saved in {folder}" for _, folder in measured))
