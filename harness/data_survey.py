"""`podium data`, and the same step before training and serving: surveys a data set once and passes
the findings to runs.

MLPerf's clock starts before any part of the system touches the data set (training_rules.adoc v0.7,
Run Results); what must be known
before that, counts and names of classes, comes from the manifest that the survey writes.
"""

import json
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from harness import data_manifest
from harness.data_manifest import Manifest
from harness.distributed import Ranks
from harness.request import Request, prepare
from suite import registry
from suite.cli import Options
from suite.dataset import DataSet, StaleError
from suite.errors import RequestError
from suite.rounds import Profile
from suite.terms import Precision
from suite.workload import Run

MIB: Final = 2**20


def informed(request: Request, run: Run) -> Run:
    """Add the data survey's findings to a run; survey the data now, with a message, if that was not
    done yet.
    """
    data_set = registry.data_set(request.workload, run)
    if data_set is None:
        return run
    path = data_manifest.path_of(run.cache, request.name, data_set)
    try:
        made = known(request, data_set, path) or looked_over(request, data_set, path)
        data_set.check(made.found)
    except StaleError as error:
        raise RequestError(f"{error}; to survey the data again: {command(request)}") from error
    return replace(run, found=made.found)


def informed_ranks(request: Request, run: Run, ranks: Ranks) -> Run:
    """Add the findings on each rank; the first rank of each machine surveys the data if needed,
    since each machine has its own cache.
    """
    first = ranks.local_rank == 0
    told = informed(request, run) if first else run
    ranks.wait()
    return told if first else informed(request, run)


def known(request: Request, data_set: DataSet, path: Path) -> Manifest | None:
    """Read the findings of an earlier survey, or None; StaleError if the data set has changed
    since.
    """
    made = data_manifest.find(path, request.name)
    if made and (changed := data_manifest.changes(made.places, data_manifest.places(data_set))):
        raise StaleError(f"{data_set.root}: changed since it was surveyed: {changed}")
    return made


def looked_over(request: Request, data_set: DataSet, path: Path) -> Manifest:
    """Survey a data set, with a message; RequestError if it changes meanwhile."""
    click.echo(f"{request.name}: surveying the data in {data_set.root}, once")
    before = data_manifest.places(data_set)
    survey = data_set.survey()
    after = data_manifest.places(data_set)
    made = {
        name: place for name, place in after.items() if name in before or name not in data_set.parts
    }  # except parts that the survey itself creates
    if changed := data_manifest.changes(before, made):
        raise RequestError(f"{data_set.root}: changed during the survey: {changed}")
    found = data_manifest.write(path, request.name, data_set, survey, after)
    click.echo(f"{request.name}: {summary(found)}; saved in {path}")
    return found


def summary(made: Manifest) -> str:
    """Summarise the findings in a few words."""
    samples = ", ".join(f"{count:,} {split}" for split, count in made.samples.items())
    return f"{samples} samples in {files(made):,} files, {size(made) / MIB:,.1f} MiB"


def files(made: Manifest) -> int:
    """Count the files of a data set."""
    return sum(place.files for place in made.places.values())


def size(made: Manifest) -> int:
    """Count the bytes of a data set."""
    return sum(place.bytes for place in made.places.values())


def command(request: Request) -> str:
    """Return the command that surveys a request's data."""
    options = request.options
    given = {"--data": options.data, "--profile": options.profile.value, "--config": options.config}
    words = [word for option, value in given.items() if value for word in (option, str(value))]
    words += [word for assignment in options.assignments for word in ("--set", assignment)]
    return shlex.join(["podium", "data", request.name, *words])


def look(workload: str, options: Options, form: str) -> None:
    """Survey a data set, even if that was done before, and print the findings; RequestError if no
    run could use it.
    """
    request = prepare(options, workload)
    run = request.run(0, Precision.FP32)
    data_set = registry.data_set(request.workload, run)
    if data_set is None:
        raise RequestError(f"{workload} has no dataset to survey")
    path = data_manifest.path_of(run.cache, workload, data_set)
    with redirect_stdout(sys.stderr) if form == "json" else nullcontext():
        made = looked_over(request, data_set, path)
    report(made, path, options.profile, form)
    data_set.check(made.found)


def report(made: Manifest, path: Path, profile: Profile, form: str) -> None:
    """Print the findings."""
    if form == "json":
        counted = {
            "samples": made.samples,
            "files": files(made),
            "bytes": size(made),
            "sha256": made.hashes,
        }
        click.echo(
            json.dumps(
                {
                    "workload": made.workload,
                    "profile": profile,
                    "data": made.root,
                    "manifest": str(path),
                    **counted,
                }
            )
        )
        return
    for part, digest in made.hashes.items():
        click.echo(f"{digest}  {part}")
