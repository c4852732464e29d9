"""The command `build`."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions, add_run_options
from suite.console.options import CHECKPOINT_OPTION, DATA_OPTIONS, MODEL_OPTIONS
from suite.console.parameters import PATH_TYPE, WORKLOAD_TYPE
from suite.terms import Precision

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILDING_ENGINE: Final = "tensorrt"
"""The engine whose library builds for a GPU that is not here."""
DEFAULT_FOLDER: Final = Path("plans")


def parse_target_list(_: click.Context, __: click.Parameter, text: str) -> "Sequence[str]":
    """Parse names of targets; each counts once."""
    return tuple(dict.fromkeys(split_list(text)))


def parse_precision_list(_: click.Context, __: click.Parameter, text: str) -> "Sequence[Precision]":
    """Parse number formats; each counts once."""
    known = [each.value for each in Precision]
    names = split_list(text)
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(known)}")
    return tuple(dict.fromkeys(map(Precision, names)))


def split_list(text: str) -> list[str]:
    """Split a list at its commas."""
    names = [part.strip() for part in text.split(",")]
    if not all(names):
        raise click.BadParameter(f"{text!r}: use names with commas between them")
    return names


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(*MODEL_OPTIONS, *DATA_OPTIONS)
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice([BUILDING_ENGINE]),
    default=BUILDING_ENGINE,
    show_default=True,
    help="Engine to build for.",
)
@click.option(
    "--target",
    "targets",
    required=True,
    callback=parse_target_list,
    help="Compute capabilities of the GPUs, with commas: sm75 (T4), sm80, sm86, sm89 (L4), sm120.",
)
@click.option(
    "--precision",
    "precisions",
    default=Precision.FP16.value,
    show_default=True,
    callback=parse_precision_list,
    help="Number formats, with commas.",
)
@CHECKPOINT_OPTION
@click.option(
    "--output",
    "-o",
    "folder",
    type=PATH_TYPE,
    help="Folder for the engines (default: plans/WORKLOAD).",
)
def build(
    workload: str,
    options: RunOptions,
    engine_name: str,
    targets: tuple[str, ...],
    precisions: tuple[Precision, ...],
    checkpoint: Path | None,
    folder: Path | None,
) -> None:
    """Build engines of WORKLOAD for other machines; no GPU is needed.

    TensorRT for RTX builds for RTX cards, T4 and L4. The folder holds an engine for each network,
    precision and target, and plans.json, which lists what each was built from. Serve them where
    the GPU is: podium infer WORKLOAD --engine tensorrt --plans DIR. An error names the layer that a
    target cannot run.

    Example: podium build resnet50 --target sm75,sm89 --precision fp16,int8
    """
    with report_missing_modules():
        from dataclasses import replace

        from extras.tensorrt.ahead_of_time import BuildOrder, build_ahead

        build_ahead(
            workload,
            replace(options, engine=engine_name),
            checkpoint,
            BuildOrder(
                targets=targets,
                precisions=precisions,
                folder=(folder or DEFAULT_FOLDER / workload).resolve(),
            ),
        )
