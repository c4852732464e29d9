"""Fills the templates of job files: what a user typed becomes one file that a scheduler takes."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jinja2

from suite import __version__, registry
from suite.errors import RequestError
from suite.files.layout import nearest, slug, staged_results
from suite.terms import Profile

TEMPLATES: Final = {
    "slurm": "slurm.sh.j2",
    "kubernetes": "job.yaml.j2",
    "trainjob": "trainjob.yaml.j2",
    "apptainer": "apptainer.def.j2",
}
UNFINISHED: Final = "*/*/results/*/{name}/result_*.txt.partial"
"""Below a results folder: the log of a run that can go on; `name` is the row's training_name
(suite/files/layout.py).
"""
RESTARTS: Final = 3
"""Restarts by torchrun after a lost rank: house rule; what is lost more often is not mended by
another try.
"""
REQUEUES: Final = 10
"""After so many restarts by Slurm a job that fails again is left to its user: house rule.
Preemption counts too, so it is well above RESTARTS.
"""
WARNING_S: Final = 120
"""Seconds between the signal to save and the end: house rule, more than twice what podium gives a
save before it is ended (suite/process/signals.py).
"""
PORT: Final = 29400
"""torchrun's own default, torch/distributed/run.py."""
LOCAL: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "ramfs"}
)
"""File systems of one machine, as /proc/mounts names them."""
IMAGES: Final = {"apptainer": "python:3.11-slim"}
"""Where an image may be left open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A training on a cluster."""

    scheduler: str
    """A key of TEMPLATES."""
    workload: str
    nodes: int
    devices: int
    """Ranks on each node, one for each device."""
    results: Path
    data: Path | None
    profile: str
    device: str
    container: str | None
    partition: str | None
    limit: str | None
    """The time limit, as Slurm writes it."""
    more: tuple[str, ...]
    """Further options of podium train."""
    shared: bool
    """The user says that all nodes see the results folder."""


def job_file(wanted: Wanted) -> str:
    """Return the text of the job file; RequestError for a request that no cluster could run."""
    registry.workload(wanted.workload)
    registry.round().benchmark(wanted.workload).check_data(
        wanted.workload, Profile(wanted.profile), wanted.data
    )
    check(wanted)
    template = environment().from_string(
        files("harness.launch").joinpath(TEMPLATES[wanted.scheduler]).read_text("utf-8")
    )
    return template.render(values(wanted)) + "\n"


def check(wanted: Wanted) -> None:
    """Refuse what would fail on the cluster after hours in its queue."""
    if wanted.scheduler in ("kubernetes", "trainjob") and not wanted.container:
        raise RequestError("a pod needs an image: --container IMAGE")
    if not wanted.results.is_absolute():
        raise RequestError(
            f"--results {wanted.results}: write an absolute path, since jobs start elsewhere"
        )
    if wanted.data and not wanted.data.is_absolute():
        raise RequestError(
            f"--data {wanted.data}: write an absolute path, since jobs start elsewhere"
        )
    on = (
        file_system(wanted.results)
        if wanted.nodes > 1 and wanted.scheduler in ("slurm", "apptainer") and not wanted.shared
        else ""
    )
    if on in LOCAL and wanted.results.exists():
        raise RequestError(
            f"--results {wanted.results} lies on {on}, which other nodes do not see: take a folder"
            " that all share, or say --shared"
        )


def file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """Return the kind of file system of a path, or of its nearest folder that is there; empty if it
    is not known.
    """
    try:
        rows = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    except OSError:
        return ""
    place = nearest(path).resolve()
    below = [(where, kind) for where, kind in rows if place.is_relative_to(where)]
    return max(below, key=lambda row: len(row[0]), default=("", ""))[1]


def environment() -> jinja2.Environment:
    """Build the templates' environment: a name that is not given is an error, and text is quoted
    for shells and YAML.
    """
    made = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=False)  # noqa: S701 - no HTML
    made.filters |= {"quote": lambda value: shlex.quote(str(value)), "json": json.dumps}
    return made


def values(wanted: Wanted) -> Mapping[str, Any]:
    """Return what the templates name."""
    volumes = [{"name": "results", "path": str(wanted.results), "fixed": False}]
    volumes += [{"name": "data", "path": str(wanted.data), "fixed": True}] if wanted.data else []
    mounts = ",".join(f"{each['path']}:{each['path']}" for each in volumes)
    pyxis = wanted.container and wanted.scheduler == "slurm"
    return {
        "command": shlex.join(["podium", *sys.argv[1:]]).replace("\n", " "),
        "name": f"podium-{slug(wanted.workload).replace('_', '-').replace('.', '-')}",
        "nodes": wanted.nodes,
        "devices": wanted.devices,
        "gpus": wanted.device != "cpu",
        "image": wanted.container or IMAGES.get(wanted.scheduler),
        "container": (
            f"--container-image={shlex.quote(wanted.container or '')}"
            f" --container-mounts={shlex.quote(mounts)} "
            if pyxis
            else ""
        ),
        "partition": wanted.partition,
        "limit": wanted.limit,
        "results": wanted.results,
        "volumes": volumes,
        "binds": shlex.quote(mounts),
        "start": "torchrun",
        "words": shlex.join(train_words(wanted)),
        "unfinished": unfinished(wanted),
        "restarts": RESTARTS,
        "requeues": REQUEUES,
        "warning_s": WARNING_S,
        "port": PORT,
        "version": __version__,
    }


def unfinished(wanted: Wanted) -> str:
    """Spell bash's condition that a run of this workload can go on, in the results folder or beside
    a complete set that it is going to replace.
    """
    logs = UNFINISHED.format(name=registry.round().benchmark(wanted.workload).training_name)
    places = [wanted.results, staged_results(wanted.results, wanted.workload)]
    return " || ".join(
        f"compgen -G {shlex.quote(str(place))}/{logs} > /dev/null" for place in places
    )


def train_words(wanted: Wanted) -> list[str]:
    """Spell the command that each rank runs."""
    words = [
        "train",
        wanted.workload,
        "--profile",
        wanted.profile,
        "--results",
        str(wanted.results),
        "--device",
        wanted.device,
    ]
    return [*words, *(["--data", str(wanted.data)] if wanted.data else []), *wanted.more]


def lacking(scheduler: str) -> str:
    """Return which program would take the file and is not here, or ""."""
    program = {"slurm": "sbatch", "apptainer": "apptainer"}.get(scheduler, "kubectl")
    paths = os.environ.get("PATH", "").split(os.pathsep)
    return "" if any((Path(folder) / program).exists() for folder in paths if folder) else program
