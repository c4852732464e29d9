"""`podium data`, and the same step before training and serving: surveys a data set once and passes
the results to runs.

MLPerf's clock starts before any part of the system touches the data set (training_rules.adoc v0.7,
Run Results); what must be known before that, counts and names of classes, comes from the manifest
that the survey writes.
"""

import json
import os
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path

import click

from harness import data_manifest
from harness.data_manifest import DataManifest
from harness.distributed import Ranks
from harness.request import RunRequest, resolve_request
from suite.cli import RunOptions
from suite.console.screen import ACTIVITY
from suite.dataset import DataSet, StaleError
from suite.errors import RequestError
from suite.files.cache import check_cache_writable, lock_cache_entry
from suite.rounds import Profile
from suite.terms import Precision
from suite.units import MIB
from suite.workload import Run


def add_survey_results(request: RunRequest, run: Run) -> Run:
    """Add the data survey's results to a run; survey the data now, with a message, if that was not
    done yet.
    """
    data_set = request.workload.build_data_set(run)
    if data_set is None:
        return run
    path = data_manifest.build_manifest_path(run.cache, request.name, data_set)
    try:
        manifest = find_earlier_survey(request, data_set, path) or survey_in_turn(
            request, data_set, path
        )
        data_set.check(manifest.found)
    except StaleError as error:
        raise RequestError(
            f"{error}; to survey the data again: {format_survey_command(request)}"
        ) from error
    return replace(run, found=manifest.found)


def add_survey_results_on_ranks(request: RunRequest, run: Run, ranks: Ranks) -> Run:
    """Add the survey's results on each rank; the first rank of each machine surveys the data if
    needed, since each machine has its own cache.
    """
    first = ranks.local_rank == 0
    informed_run = add_survey_results(request, run) if first else run
    ranks.wait_for_ranks()
    if first:
        return informed_run
    return add_survey_results(request, run)


def find_earlier_survey(request: RunRequest, data_set: DataSet, path: Path) -> DataManifest | None:
    """Read the results of an earlier survey, or None; StaleError if the data set has changed
    since.
    """
    manifest = data_manifest.find_data_manifest(path, request.name)
    if manifest and (
        changed := data_manifest.describe_data_changes(
            manifest.places, data_manifest.compute_folder_stamps(data_set)
        )
    ):
        raise StaleError(f"{data_set.root}: changed since it was surveyed: {changed}")
    return manifest


def survey_in_turn(request: RunRequest, data_set: DataSet, path: Path) -> DataManifest:
    """Survey a data set, unless another process has done so while this one waited for it."""
    with lock_cache_entry(path):
        return find_earlier_survey(request, data_set, path) or create_survey_manifest(
            request, data_set, path
        )


def create_survey_manifest(request: RunRequest, data_set: DataSet, path: Path) -> DataManifest:
    """Survey a data set, with a message; RequestError if it changes meanwhile, or a split has no
    usable sample.
    """
    if not os.access(path, os.R_OK):  # before a survey that may take minutes
        check_cache_writable(path.parent)
    surveying = f"{request.name}: surveying the data in {data_set.root}"
    click.echo(f"{surveying}, once")
    ACTIVITY.mark_shown(surveying)
    before = data_manifest.compute_folder_stamps(data_set)
    survey = data_set.survey()
    after = data_manifest.compute_folder_stamps(data_set)
    # except parts that the survey itself creates
    comparable_stamps = {
        name: place for name, place in after.items() if name in before or name not in data_set.parts
    }
    if changed := data_manifest.describe_data_changes(before, comparable_stamps):
        raise RequestError(f"{data_set.root}: changed during the survey: {changed}")
    if emptied := next((split for split, count in survey.samples.items() if not count), None):
        data_set.check(survey.found)  # says why, if the workload knows
        raise RequestError(f"{data_set.root}: no usable sample in {emptied}")
    for remark in survey.remarks:
        click.echo(f"{request.name}: {remark}")
    manifest = data_manifest.write_data_manifest(path, request.name, data_set, survey, after)
    click.echo(f"{request.name}: {format_survey_summary(manifest)}; saved in {path}")
    return manifest


def format_survey_summary(manifest: DataManifest) -> str:
    """Summarise the survey's results in a few words."""
    samples = ", ".join(f"{count:,} {split}" for split, count in manifest.samples.items())
    return (
        f"{samples} samples in {count_data_files(manifest):,} files,"
        f" {count_data_bytes(manifest) / MIB:,.1f} MiB"
    )


def count_data_files(manifest: DataManifest) -> int:
    return sum(place.files for place in manifest.places.values())


def count_data_bytes(manifest: DataManifest) -> int:
    return sum(place.bytes for place in manifest.places.values())


def format_survey_command(request: RunRequest) -> str:
    """Return the command that surveys a request's data."""
    options = request.options
    given = {"--data": options.data, "--profile": options.profile.value, "--config": options.config}
    words = [word for option, value in given.items() if value for word in (option, str(value))]
    words += [word for assignment in options.assignments for word in ("--set", assignment)]
    return shlex.join(["podium", "data", request.name, *words])


def run_data_survey(workload: str, options: RunOptions, output_format: str) -> None:
    """Survey a data set, even if that was done before, and print the results; RequestError if no
    run could use it.
    """
    request = resolve_request(options, workload)
    run = request.build_run(0, Precision.FP32)
    data_set = request.workload.build_data_set(run)
    if data_set is None:
        raise RequestError(f"{workload} has no dataset to survey")
    path = data_manifest.build_manifest_path(run.cache, workload, data_set)
    with (
        redirect_stdout(sys.stderr) if output_format == "json" else nullcontext(),
        lock_cache_entry(path),
    ):
        manifest = create_survey_manifest(request, data_set, path)
    print_survey(manifest, path, options.profile, output_format)
    data_set.check(manifest.found)


def print_survey(manifest: DataManifest, path: Path, profile: Profile, output_format: str) -> None:
    if output_format == "json":
        counted = {
            "samples": manifest.samples,
            "files": count_data_files(manifest),
            "bytes": count_data_bytes(manifest),
            "sha256": manifest.hashes,
        }
        click.echo(
            json.dumps(
                {
                    "workload": manifest.workload,
                    "profile": profile,
                    "data": manifest.root,
                    "manifest": str(path),
                    **counted,
                }
            )
        )
        return
    for part, digest in manifest.hashes.items():
        click.echo(f"{digest}  {part}")
