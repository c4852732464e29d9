"""`podium launch`: the command line; it prints a job file and runs nothing."""

import click

from suite.cli import PATH_TYPE
from suite.console.parameters import WORKLOAD_TYPE
from suite.process.devices import is_gpu_list
from suite.terms import Profile


def parse_positive_count(_: click.Context, parameter: click.Parameter, text: str) -> int:
    """Read a number from 1; a range, as torchrun takes it, is refused."""
    if ":" in text:
        why = (
            "is fixed for a run, since its batches depend on it; a lost node is replaced, not"
            " left out"
        )
        raise click.BadParameter(f"{text!r}: the number of {parameter.name} {why}")
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1_000_000):
        raise click.BadParameter(f"{text!r} is not a number from 1")
    return int(text)


def require_single_device(_: click.Context, __: click.Parameter, device: str) -> str:
    """Refuse a list of GPUs: --devices counts them."""
    if is_gpu_list(device):
        raise click.BadParameter(
            f"{device}: each rank takes a GPU of its own: write cuda, and their number as --devices"
        )
    return device


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("scheduler", type=click.Choice(["slurm", "kubernetes", "apptainer"]))
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF podium train]")
@click.option("--nodes", default="1", callback=parse_positive_count, help="Machines.")
@click.option(
    "--devices",
    default="1",
    callback=parse_positive_count,
    help="Devices of each machine; one rank for each.",
)
@click.option(
    "--results",
    type=PATH_TYPE,
    required=True,
    help="Results folder, an absolute path that all nodes share.",
)
@click.option(
    "--data", type=PATH_TYPE, help="Folder with the real data set, an absolute path on every node."
)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default="full",
    show_default=True,
    help="How much of the round is run.",
)
@click.option(
    "--device",
    default="cuda",
    show_default=True,
    callback=require_single_device,
    help="cpu or cuda.",
)
@click.option(
    "--container",
    metavar="IMAGE",
    help="Image: for pyxis (Slurm), for pods, or to build on (Apptainer).",
)
@click.option("--partition", help="Slurm's partition.")
@click.option("--time", "limit", help="Slurm's time limit, as in 04:00:00.")
@click.option(
    "--trainjob",
    is_flag=True,
    help="Kubernetes: a TrainJob of Kubeflow Trainer v2 instead of an Indexed Job.",
)
@click.option(
    "--shared",
    is_flag=True,
    help="All nodes see the results folder, although it looks like a disk of this machine.",
)
def launch(
    scheduler: str,
    workload: str,
    nodes: int,
    devices: int,
    trainjob: bool,
    more: tuple[str, ...],
    **rest: object,
) -> None:
    """Print the file that starts the training of WORKLOAD on a cluster: a batch script, manifests,
    or the recipe of a container.

    Nothing is run. Restarts after a lost rank are torchrun's; a job that is preempted goes on from
    its last checkpoint.

    Example: podium launch slurm resnet50 --nodes 4 --devices 8 --results /shared/results --data
    /shared/imagenet > job.sh
    """
    from harness.launch.job_file import JobRequest, find_missing_program, render_job_file

    kind = "trainjob" if trainjob and scheduler == "kubernetes" else scheduler
    if trainjob and scheduler != "kubernetes":
        raise click.UsageError("--trainjob belongs to kubernetes")
    request = JobRequest(
        scheduler=kind,
        workload=workload,
        nodes=nodes,
        devices=devices,
        more=more,
        **rest,  # type: ignore[arg-type]
    )
    click.echo(render_job_file(request), nl=False)
    if program := find_missing_program(scheduler):
        click.echo(f"{program} is not on this machine: give the file to one that has it", err=True)
