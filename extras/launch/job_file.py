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
from suite.files.layout import convert_to_slug, find_existing_parent, locate_staged_results
from suite.terms import Profile

JOB_TEMPLATES: Final = {
    "slurm": "slurm.sh.j2",
    "kubernetes": "job.yaml.j2",
    "trainjob": "trainjob.yaml.j2",
    "apptainer": "apptainer.def.j2",
}
UNFINISHED_LOG_GLOB: Final = "*/*/results/*/{name}/result_*.txt.partial"
"""Below a results folder: the log of a run that can go on; `name` is the row's training_name
(suite/files/layout.py).
"""
MAX_TORCHRUN_RESTARTS: Final = 3
"""Restarts by torchrun after a lost rank: house rule; what is lost more often is not mended by
another try.
"""
MAX_SLURM_REQUEUES: Final = 10
"""After so many restarts by Slurm a job that fails again is left to its user: house rule.
Preemption counts too, so it is well above RESTARTS.
"""
SIGNAL_LEAD_TIME_S: Final = 120
"""Seconds between the signal to save and the end: house rule, more than twice what podium gives a
save before it is ended (suite/process/signals.py).
"""
RENDEZVOUS_PORT: Final = 29400
"""torchrun's own default, torch/distributed/run.py."""
LOCAL_FILE_SYSTEMS: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "ramfs"}
)
"""File systems of one machine, as /proc/mounts names them."""
DEFAULT_IMAGES: Final = {"apptainer": "python:3.11-slim"}
"""Where an image may be left open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
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


def render_job_file(request: JobRequest) -> str:
    """Return the text of the job file; RequestError for a request that no cluster could run."""
    registry.load_workload(request.workload)
    registry.load_round().benchmark(request.workload).check_data(
        request.workload, Profile(request.profile), request.data
    )
    check_job_request(request)
    template = build_job_environment().from_string(
        files("extras.launch").joinpath(JOB_TEMPLATES[request.scheduler]).read_text("utf-8")
    )
    return template.render(build_job_values(request)) + "\n"


def check_job_request(request: JobRequest) -> None:
    """Refuse what would fail on the cluster after hours in its queue."""
    if request.scheduler in ("kubernetes", "trainjob") and not request.container:
        raise RequestError("a pod needs an image: --container IMAGE")
    if not request.results.is_absolute():
        raise RequestError(
            f"--results {request.results}: write an absolute path, since jobs start elsewhere"
        )
    if request.data and not request.data.is_absolute():
        raise RequestError(
            f"--data {request.data}: write an absolute path, since jobs start elsewhere"
        )
    on = ""
    if request.nodes > 1 and request.scheduler in ("slurm", "apptainer") and not request.shared:
        on = find_file_system(request.results)
    if on in LOCAL_FILE_SYSTEMS and request.results.exists():
        raise RequestError(
            f"--results {request.results} is on {on}, which other nodes do not see: use a folder"
            " that all share, or say --shared"
        )


def find_file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """Return the kind of file system of a path, or of its nearest folder that is there; empty if it
    is not known.
    """
    try:
        rows = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    except OSError:
        return ""
    folder = find_existing_parent(path).resolve()
    below = [
        (mount_point, kind) for mount_point, kind in rows if folder.is_relative_to(mount_point)
    ]
    return max(below, key=lambda row: len(row[0]), default=("", ""))[1]


def build_job_environment() -> jinja2.Environment:
    """Build the templates' environment: a name that is not given is an error, and text is quoted
    for shells and YAML.
    """
    templates = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=False
    )  # noqa: S701 - no HTML
    templates.filters |= {"quote": lambda value: shlex.quote(str(value)), "json": json.dumps}
    return templates


def build_job_values(request: JobRequest) -> Mapping[str, Any]:
    """Return what the templates name."""
    volumes = [{"name": "results", "path": str(request.results), "fixed": False}]
    if request.data:
        volumes.append({"name": "data", "path": str(request.data), "fixed": True})
    mounts = ",".join(f"{each['path']}:{each['path']}" for each in volumes)
    container = ""
    if request.container and request.scheduler == "slurm":
        container = (
            f"--container-image={shlex.quote(request.container)}"
            f" --container-mounts={shlex.quote(mounts)} "
        )
    return {
        "command": shlex.join(["podium", *sys.argv[1:]]).replace("\n", " "),
        "name": f"podium-{convert_to_slug(request.workload).replace('_', '-').replace('.', '-')}",
        "nodes": request.nodes,
        "devices": request.devices,
        "gpus": request.device != "cpu",
        "image": request.container or DEFAULT_IMAGES.get(request.scheduler),
        "container": container,
        "partition": request.partition,
        "limit": request.limit,
        "results": request.results,
        "volumes": volumes,
        "binds": shlex.quote(mounts),
        "start": "torchrun",
        "words": shlex.join(build_train_arguments(request)),
        "unfinished": format_unfinished_condition(request),
        "restarts": MAX_TORCHRUN_RESTARTS,
        "requeues": MAX_SLURM_REQUEUES,
        "warning_s": SIGNAL_LEAD_TIME_S,
        "port": RENDEZVOUS_PORT,
        "version": __version__,
    }


def format_unfinished_condition(request: JobRequest) -> str:
    """Spell bash's condition that a run of this workload can go on, in the results folder or beside
    a complete set that it is going to replace.
    """
    logs = UNFINISHED_LOG_GLOB.format(
        name=registry.load_round().benchmark(request.workload).training_name
    )
    folders = [request.results, locate_staged_results(request.results, request.workload)]
    return " || ".join(
        f"compgen -G {shlex.quote(str(place))}/{logs} > /dev/null" for place in folders
    )


def build_train_arguments(request: JobRequest) -> list[str]:
    """Spell the command that each rank runs."""
    words = [
        "train",
        request.workload,
        "--profile",
        request.profile,
        "--results",
        str(request.results),
        "--device",
        request.device,
    ]
    if request.data:
        words += ["--data", str(request.data)]
    return [*words, *request.more]


def find_missing_program(scheduler: str) -> str:
    """Return which program would take the file and is not here, or ""."""
    program = {"slurm": "sbatch", "apptainer": "apptainer"}.get(scheduler, "kubectl")
    paths = os.environ.get("PATH", "").split(os.pathsep)
    if any((Path(folder) / program).exists() for folder in paths if folder):
        return ""
    return program
