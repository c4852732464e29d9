"""The command `sweep`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from harness.commands.onnx_options import ONNX_FILES_OPTION, SHAPE_OPTION, VALUE_OPTION
from harness.commands.study import REPEATS_OPTION
from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions
from suite.console.options import (
    CONFIG_OPTION,
    DEFAULT_RESULTS,
    METER_OPTION,
    POWER_OPTION,
    SET_OPTION,
    THREADS_OPTION,
    build_format_option,
    build_profile_option,
)
from suite.console.parameters import (
    ENGINE_OR_AUTO_TYPE,
    FRAMEWORK_TYPE,
    NETWORK_TYPE,
    PATH_TYPE,
    SEED_TYPE,
    WORKLOAD_TYPE,
    FiniteRange,
)
from suite.errors import RequestError
from suite.terms import AUTOMATIC_ENGINE, Precision, Profile

if TYPE_CHECKING:
    from harness.serving.onnx_file.network import OnnxNetwork
    from harness.serving.sweep.subjects import SweepOptions

MAX_SWEEP_BATCH_SIZE: Final = 65_536
"""Largest batch size of a sweep; a larger number is a typing error."""

SHARED_OPTIONS: Final = (
    "profile",
    "framework",
    "data",
    "results",
    "device",
    "threads",
    "config",
    "assignments",
    "power",
    "meter",
)
"""Options that all points share; the others belong to the sweep."""


def parse_sweep_batch_sizes(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    """Parse batch sizes; each counts once."""
    sizes = [
        int(part) if part.strip().isascii() and part.strip().isdigit() else 0
        for part in text.split(",")
    ]
    if not all(0 < size <= MAX_SWEEP_BATCH_SIZE for size in sizes):
        raise click.BadParameter(
            f"{text!r}: use comma-separated batch sizes from 1 to {MAX_SWEEP_BATCH_SIZE:,}, as in"
            " 1,2,4,8"
        )
    return tuple(dict.fromkeys(sizes))


@click.command()
@click.argument("workloads", nargs=-1, type=WORKLOAD_TYPE, metavar="[WORKLOAD...]")
@click.option(
    "--network",
    "networks",
    multiple=True,
    type=NETWORK_TYPE,
    help="Bare network with random weights; repeatable.",
)
@ONNX_FILES_OPTION
@SHAPE_OPTION
@VALUE_OPTION
@click.option(
    "--batches",
    default="1,2,4,8",
    show_default=True,
    callback=parse_sweep_batch_sizes,
    help="Batch sizes to measure.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=ENGINE_OR_AUTO_TYPE,
    default=(AUTOMATIC_ENGINE,),
    show_default=True,
    help=(
        "Inference engine, repeatable; auto: the fastest here that answers as accurately as the"
        " others."
    ),
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=click.Choice([each.value for each in Precision]),
    default=("fp32",),
    show_default=True,
    help="Number format; repeatable.",
)
@click.option(
    "--within-ms",
    type=FiniteRange(min=0, min_open=True),
    help="Report the largest batch whose p99 latency is within this budget, in ms.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Minimum duration of a point, in seconds.",
)
@click.option(
    "--weights",
    type=PATH_TYPE,
    help="safetensors file for one --network, with torchvision's tensor names.",
)
@click.option(
    "--checkpoint",
    type=PATH_TYPE,
    help=(
        "Folder of exported weights of one WORKLOAD (default: the newest checkpoint that reached"
        " the target)."
    ),
)
@build_profile_option("Profile of the workloads.")
@click.option(
    "--framework",
    type=FRAMEWORK_TYPE,
    default="torch",
    show_default=True,
    help="Framework of the workloads' models.",
)
@click.option(
    "--data",
    type=PATH_TYPE,
    help=(
        "Folder of the real data set of one WORKLOAD, of images on which one --network is scored"
        " (ImageNet's val/), or of the samples of one --onnx (.npy, .npz)."
    ),
)
@click.option(
    "--results",
    type=PATH_TYPE,
    default=DEFAULT_RESULTS,
    show_default=True,
    help="Results folder; a study is in its subfolder studies/NAME.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="cpu, cuda, cuda:1, or auto: a GPU if there is one.",
)
@THREADS_OPTION
@CONFIG_OPTION
@SET_OPTION
@POWER_OPTION
@METER_OPTION
@click.option(
    "--seed",
    type=SEED_TYPE,
    default=0,
    show_default=True,
    help="Seed for the measuring order.",
)
@REPEATS_OPTION
@build_format_option("text", "json", "csv")
def sweep(
    workloads: tuple[str, ...],
    networks: tuple[str, ...],
    repeats: int,
    output_format: str,
    **values: Any,
) -> None:
    """Measure throughput and latency of WORKLOADS, bare networks and ONNX files for each batch
    size, engine and precision.

    Each point is a separate LoadGen run: a closed loop of queries, each with one batch of samples.
    Points that have been measured already are skipped.

    Example: podium sweep --network alexnet --network vgg19 --batches 1,2,4,8 --engine onnxruntime
    --within-ms 7
    """
    if not workloads and not networks and not values["onnx"]:
        raise click.UsageError(
            "nothing to measure: name workloads, networks with --network, or files with --onnx"
        )
    with report_missing_modules():
        from harness.serving.sweep.command import run_sweep

        request, options = build_sweep_request(workloads, networks, values)
        run_sweep(request, options, repeats, output_format)


def build_sweep_request(
    workloads: tuple[str, ...], networks: tuple[str, ...], values: dict[str, Any]
) -> "tuple[SweepOptions, RunOptions]":
    """Build the request of a sweep and the options that all points share; RequestError if they
    contradict one another.
    """
    from harness.serving.sweep.subjects import SweepOptions

    onnx, inputs = values.pop("onnx"), {name: values.pop(name) for name in ("shapes", "fixed")}
    check_single_subject_options(workloads, networks, values, onnx)
    files = open_swept_files(onnx, inputs, values)
    networks = (*networks, *(each.name for each in files))
    shared = {name: values.pop(name) for name in SHARED_OPTIONS}
    shared["profile"] = Profile(shared["profile"])
    options = RunOptions(
        **shared, engine="torch", input="default", precision=None, org="unaffiliated", system=None
    )
    precisions = tuple(Precision(each) for each in dict.fromkeys(values.pop("precisions")))
    engines = tuple(dict.fromkeys(values.pop("engines")))
    return (
        SweepOptions(
            workloads=tuple(dict.fromkeys(workloads)),
            networks=tuple(dict.fromkeys(networks)),
            engines=engines,
            precisions=precisions,
            files=files,
            **values,
        ),
        options,
    )


def open_swept_files(
    paths: tuple[Path, ...], inputs: Mapping[str, tuple[str, ...]], values: Mapping[str, Any]
) -> "tuple[OnnxNetwork, ...]":
    """Read the ONNX files of a sweep, each at least once; RequestError as for `podium infer
    --onnx`.
    """
    if not paths:
        for name, option in (("shapes", "--shape"), ("fixed", "--value")):
            if inputs[name]:
                raise RequestError(f"{option} requires --onnx")
        return ()
    from harness.serving.onnx_file.network import open_onnx_networks
    from harness.serving.onnx_file.shapes import parse_named_shapes, parse_named_values

    files = open_onnx_networks(
        tuple(dict.fromkeys(paths)),
        parse_named_shapes(inputs["shapes"]),
        values["data"],
        parse_named_values(inputs["fixed"]),
    )
    for each in files:
        each.check_batch_sizes(values["batches"])
    return files


def check_single_subject_options(
    workloads: tuple[str, ...],
    networks: tuple[str, ...],
    values: dict[str, Any],
    onnx: tuple[Path, ...] = (),
) -> None:
    """Raise RequestError if an option of one subject meets several, or two subjects share a
    folder.
    """
    for option, names in (
        ("weights", networks),
        ("checkpoint", workloads),
        ("data", (*workloads, *networks, *map(str, onnx)) if onnx else workloads or networks),
    ):
        if values[option] and len(names) != 1:
            raise RequestError(
                f"--{option} requires exactly one"
                f" {'--network' if names is networks else 'workload'}:"
                f" {', '.join(names) or 'none was named'}"
            )
    if both := set(workloads) & set(networks):
        raise RequestError(
            f"{', '.join(sorted(both))}: a workload and a network of the same name share a folder;"
            " sweep one at a time, each with its own --results"
        )
