"""The command `precision`."""

from pathlib import Path
from typing import Any, Final

import click

from harness.commands.study import REPEATS_OPTION
from harness.missing_modules import report_missing_modules
from harness.serving.network.endpoint_options import add_access_options
from suite.cli import RunOptions, add_run_options
from suite.console.options import (
    CHECKPOINT_OPTION,
    DATA_OPTIONS,
    FILING_OPTIONS,
    INPUT_OPTION,
    MACHINE_OPTIONS,
    MODEL_OPTIONS,
    POWER_OPTIONS,
    build_format_option,
)
from suite.console.parameters import ENGINE_TYPE, WORKLOAD_TYPE
from suite.terms import Precision

COMPARED_ENGINE_OPTION: Final = click.option(
    "--engine", type=ENGINE_TYPE, help="Inference engine (default: all)."
)
COMPARED_PRECISION_OPTION: Final = click.option(
    "--precision",
    type=click.Choice(list(map(str, Precision))),
    help="Number format (default: all; of servers that podium starts: fp32).",
)
SERVERS_OPTION: Final = click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME[=VENV]|URL",
    help=(
        "Server to compare, repeatable: podium, vllm or transformers, which are started here, from"
        " the virtual environment VENV if it is named; or http[s]://HOST:PORT."
    ),
)


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(
    *MODEL_OPTIONS,
    COMPARED_ENGINE_OPTION,
    COMPARED_PRECISION_OPTION,
    INPUT_OPTION,
    *DATA_OPTIONS,
    *MACHINE_OPTIONS,
    *FILING_OPTIONS,
    *POWER_OPTIONS,
)
@SERVERS_OPTION
@add_access_options
@CHECKPOINT_OPTION
@REPEATS_OPTION
@build_format_option("text", "json", "csv")
def precision(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    repeats: int,
    output_format: str,
    **asked: Any,
) -> None:
    """Compare accuracy and speed of every available engine and precision for WORKLOAD.

    With --server, podium compares servers of the checkpoint, and with --engine engines beside them.
    It starts its own server and those of vLLM and transformers, and ends them.

    The rows are a study in <results>/studies. Results stay as they are, and their runs are used
    where the settings are equal. After an interruption the same command continues.

    Example: podium precision resnet50 --format json
    """
    with report_missing_modules():
        from harness.progress import Heartbeat
        from harness.serving.precision.command import AskedServers, compare_precisions
        from harness.serving.studies.system import StudyOptions

        study_options = StudyOptions(
            values={}, checkpoint=checkpoint, repeats=repeats, output_format=output_format
        )
        with Heartbeat():
            compare_precisions(
                workload,
                options,
                engine=click.get_current_context().params["engine"],
                study_options=study_options,
                servers=AskedServers(
                    names=asked["servers"], ca=asked["ca"], token_file=asked["token_file"]
                ),
            )
