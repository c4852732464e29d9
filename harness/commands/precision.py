"""The command `precision`."""

from pathlib import Path

import click
from click.core import ParameterSource

from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions, add_run_options
from suite.console.options import CHECKPOINT_OPTION, RUN_OPTIONS, build_format_option
from suite.console.parameters import WORKLOAD_TYPE


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(*RUN_OPTIONS)
@CHECKPOINT_OPTION
@build_format_option("text", "json")
def precision(
    workload: str, options: RunOptions, checkpoint: Path | None, output_format: str
) -> None:
    """Compare accuracy and speed of every available engine and precision for WORKLOAD.

    The rows are a study in <results>/studies; results stay as they are, and their runs are used
    where the settings are equal. After an interruption the same command continues. --engine and
    --precision restrict the comparison to one engine or precision.

    Example: podium precision resnet50 --format json
    """
    with report_missing_modules():
        from harness.serving.precision.command import compare_precisions

        named = (
            click.get_current_context().get_parameter_source("engine")
            is not ParameterSource.DEFAULT
        )
        compare_precisions(
            workload,
            options,
            engine=options.engine if named else None,
            checkpoint=checkpoint,
            output_format=output_format,
        )
