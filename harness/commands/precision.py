"""The command `precision`."""

from pathlib import Path

import click
from click.core import ParameterSource

from harness.commands.study import REPEATS_OPTION
from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions, add_run_options
from suite.console.options import CHECKPOINT_OPTION, RUN_OPTIONS, build_format_option
from suite.console.parameters import WORKLOAD_TYPE


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(*RUN_OPTIONS)
@CHECKPOINT_OPTION
@REPEATS_OPTION
@build_format_option("text", "json", "csv")
def precision(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    repeats: int,
    output_format: str,
) -> None:
    """Compare accuracy and speed of every available engine and precision for WORKLOAD.

    The rows are a study in <results>/studies; results stay as they are, and their runs are used
    where the settings are equal. After an interruption the same command continues. --engine and
    --precision restrict the comparison to one engine or precision.

    Example: podium precision resnet50 --format json
    """
    with report_missing_modules():
        from harness.progress import Heartbeat
        from harness.serving.precision.command import compare_precisions
        from harness.serving.studies.system import StudyOptions

        source = click.get_current_context().get_parameter_source("engine")
        study_options = StudyOptions(
            values={}, checkpoint=checkpoint, repeats=repeats, output_format=output_format
        )
        with Heartbeat():
            compare_precisions(
                workload,
                options,
                engine=options.engine if source is not ParameterSource.DEFAULT else None,
                study_options=study_options,
            )
