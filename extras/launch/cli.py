"""The command `launch`: prints a job file and runs nothing."""

import click

from suite.console.options import build_profile_option
from suite.console.parameters import PATH_TYPE, WORKLOAD_TYPE
from suite.process.devices import is_gpu_list
from suite.terms import Profile


def parse_positive_count(_: click.Context, parameter: click.Parameter, text: str) -> int:
    """Parse a positive number; a range, which torchrun accepts, is refused."""
    if ":" in text:
        why = (
            "must be fixed, since a run's batches depend on it; a lost node is replaced, never"
            " dropped"
        )
        raise click.BadParameter(f"{text!r}: the number of {parameter.name} {why}")
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1_000_000):
        raise click.BadParameter(f"{text!r} is not a whole number of at least 1")
    return int(text)


def require_single_device(_: click.Context, __: click.Parameter, device: str) -> str:
    """Refuse a list of GPUs: --devices is their number."""
    if is_gpu_list(device):
        raise click.BadParameter(
            f"{device}: each rank uses its own GPU; give --device cuda, and the number of GPUs per"
            " machine as --devices"
        )
    return device


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("scheduler", type=click.Choice(["slurm", "kubernetes", "apptainer"]))
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF podium train]")
@click.option(
    "--nodes",
    default="1",
    show_default=True,
    callback=parse_positive_count,
    help="Number of machines.",
)
@click.option(
    "--devices",
    default="1",
    show_default=True,
    callback=parse_positive_count,
    help="Number of devices per machine; each runs one rank.",
)
@click.option(
    "--results",
    type=PATH_TYPE,
    required=True,
    help="Results folder: an absolute path on storage that all nodes share.",
)
@click.option(
    "--data",
    type=PATH_TYPE,
    help="Folder of the real data set: an absolute path that is valid on every node.",
)
@build_profile_option("How much of the round to run.", Profile.FULL)
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
    help="Container image: for pyxis (Slurm), for pods (Kubernetes), or as base image (Apptainer).",
)
@click.option("--partition", help="Slurm partition.")
@click.option("--time", "limit", help="Slurm time limit, as in 04:00:00.")
@click.option(
    "--trainjob",
    is_flag=True,
    help="Kubernetes: print a TrainJob of Kubeflow Trainer v2 instead of an Indexed Job.",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Assert that all nodes share the results folder, although it looks like a local disk.",
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
    or a container recipe.

    Nothing is run. torchrun restarts the job if a rank is lost. A preempted job resumes from its
    last checkpoint.

    Example: podium launch slurm resnet50 --nodes 4 --devices 8 --results /shared/results --data
    /shared/imagenet > job.sh
    """
    from extras.launch.job_file import JobRequest, find_missing_program, render_job_file

    if trainjob and scheduler == "kubernetes":
        kind = "trainjob"
    else:
        kind = scheduler
    if trainjob and scheduler != "kubernetes":
        raise click.UsageError("--trainjob requires the scheduler kubernetes")
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
        click.echo(
            f"{program} is not on this machine: submit the file from a machine that has it",
            err=True,
        )
