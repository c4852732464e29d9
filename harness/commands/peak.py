"""The command `peak`."""

from pathlib import Path
from typing import Any

import click

from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions, add_run_options
from suite.console.options import CHECKPOINT_OPTION, SERVING_RUN_OPTIONS, build_format_option
from suite.console.parameters import WORKLOAD_TYPE, FiniteRange
from suite.loadgen.scenario import Scenario


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(*SERVING_RUN_OPTIONS)
@click.option(
    "--scenario",
    type=click.Choice(["server", "multi-stream"]),
    default="server",
    show_default=True,
    help="server: search for a query rate; multi-stream: search for samples per query.",
)
@click.option(
    "--within-ms",
    type=FiniteRange(min=0, min_open=True),
    help="Latency bound, in ms (default: the round's).",
)
@click.option(
    "--percentile",
    type=FiniteRange(min=50, max=99.9),
    help="Percentage of queries that must meet the bound (default: the round's).",
)
@click.option(
    "--budget-s",
    type=FiniteRange(min=1),
    default=600.0,
    show_default=True,
    help="Time budget of all probes and runs, in seconds.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0.001, max=0.5),
    default=0.02,
    show_default=True,
    help=(
        "Stop when the lowest INVALID rate is at most this share above the highest VALID rate: 0.02"
        " is 2 %."
    ),
)
@CHECKPOINT_OPTION
@build_format_option("text", "json")
def peak(
    workload: str,
    options: RunOptions,
    scenario: str,
    checkpoint: Path | None,
    output_format: str,
    **values: Any,
) -> None:
    """Find the highest rate at which WORKLOAD meets a latency bound, proven by VALID LoadGen runs.

    Short probes find a bracket. Full runs follow, and the best VALID run is the answer. The search
    is a study, not a result; podium infer --peak adopts its best run as one. To resume an
    interrupted search, run the same command again.

    Example: podium peak resnet50
    """
    with report_missing_modules():
        from harness.serving.peak.command import PeakOptions
        from harness.serving.peak.command import measure_peak as search

        search(
            workload,
            options,
            PeakOptions(scenario=Scenario(scenario), **values),
            checkpoint,
            output_format,
        )
