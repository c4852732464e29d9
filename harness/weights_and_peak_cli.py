"""The commands import and peak; thin, so that `--help` loads no framework."""

from pathlib import Path
from typing import Any

import click

from harness.installed import installed
from suite.cli import PATH_TYPE, RunOptions, add_common_options
from suite.console.parameters import WORKLOAD_TYPE, FiniteRange
from suite.loadgen.scenario import Scenario


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_common_options
@click.option(
    "--scenario",
    type=click.Choice(["server", "multi-stream"]),
    default="server",
    show_default=True,
    help="A rate, or samples per query.",
)
@click.option(
    "--within-ms",
    type=FiniteRange(min=0, min_open=True),
    help="Latency bound; without it, the round's.",
)
@click.option(
    "--percentile",
    type=FiniteRange(min=50, max=99.9),
    help="Share of queries within the bound, in %; without it, the round's.",
)
@click.option(
    "--budget-s",
    type=FiniteRange(min=1),
    default=600.0,
    show_default=True,
    help="Seconds for all probes and runs.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0.001, max=0.5),
    default=0.02,
    show_default=True,
    help="Of VALID and INVALID at the end.",
)
@click.option(
    "--checkpoint",
    type=PATH_TYPE,
    help="Folder of exported weights; without it, the newest that reached the target.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def peak(
    workload: str,
    options: RunOptions,
    scenario: str,
    checkpoint: Path | None,
    form: str,
    **values: Any,
) -> None:
    """Search the highest rate at which WORKLOAD keeps a latency bound, proven by VALID LoadGen
    runs.

    Short probes find a bracket; full runs follow, and the best VALID one is the result. What was
    measured is kept: the same command goes on.

    Example: podium peak resnet50
    """
    with installed():
        from harness.serving.peak.command import PeakOptions
        from harness.serving.peak.command import measure_peak as search

        search(
            workload, options, PeakOptions(scenario=Scenario(scenario), **values), checkpoint, form
        )


@click.command("import")
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@click.argument("file", type=PATH_TYPE)
@add_common_options
def import_command(workload: str, file: Path, options: RunOptions) -> None:
    """Turn weights from elsewhere into a checkpoint of WORKLOAD, to be served without a training.

    FILE is safetensors, or a state dict that torch.load(weights_only=True) reads: torchvision's
    ResNet-50, or the weights of MLPerf's references.
    The checkpoint says where it comes from; it was never trained here, so nothing served from it is
    a result.

    Example: podium import resnet50 resnet50-11ad3fa6.pth --profile full --data /data/imagenet
    """
    with installed():
        from harness.serving.weights.importing import import_weights

        import_weights(workload, file, options)
