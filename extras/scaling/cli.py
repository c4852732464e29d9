"""The command `scaling`."""

import json
from pathlib import Path
from typing import Any

import click

from suite.console.options import build_format_option
from suite.console.parameters import PATH_TYPE, WORKLOAD_TYPE, FiniteRange


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@click.option(
    "--devices",
    type=click.IntRange(min=1, max=1_000_000),
    required=True,
    help="Number of devices to train on.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    required=True,
    help="Samples per step, over all devices.",
)
@click.option(
    "--kind",
    type=click.Choice(["V100", "V100-450W", "A100"]),
    default="V100",
    show_default=True,
    help="Kind of device; not needed with --from.",
)
@click.option(
    "--per-node",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Devices per node.",
)
@click.option(
    "--node-gb-per-s",
    type=FiniteRange(min=0, min_open=True),
    help="Network bandwidth per node, one way, in GB/s (default: that of published systems).",
)
@click.option(
    "--shard",
    is_flag=True,
    help="Divide weights, gradients and optimizer state among the devices, as train.shard does.",
)
@click.option(
    "--from",
    "results",
    type=PATH_TYPE,
    help=(
        "Results folder with a training run of your own, from whose log the rate of one device is "
        "taken."
    ),
)
@build_format_option("text", "json")
def scaling(
    workload: str, devices: int, batch: int, results: Path | None, output_format: str, **node: Any
) -> None:
    """Predict the time of a training step of WORKLOAD on many devices, with a model that is fitted
    to published ResNet-50 trainings.

    The table compares each published point with the model's prediction from the other points. A
    prediction is never a result.

    Example: podium scaling resnet50 --devices 2048 --batch 81920
    """
    from extras.scaling.command import format_scaling_tables, predict_training_step

    document = predict_training_step(workload, devices, batch, results, **node)
    if output_format == "json":
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo(format_scaling_tables(document))
