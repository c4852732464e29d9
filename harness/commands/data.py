"""The command `data`."""

from pathlib import Path

import click

from harness.missing_modules import report_missing_modules
from suite.console.options import (
    CONFIG_OPTION,
    DATA_OPTION,
    SET_OPTION,
    build_format_option,
    build_profile_option,
)
from suite.console.parameters import WORKLOAD_TYPE
from suite.files.scratch import create_temporary_folder
from suite.terms import Profile


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@DATA_OPTION
@build_profile_option("Profile whose settings are used.")
@CONFIG_OPTION
@SET_OPTION
@build_format_option("text", "json")
def data(
    workload: str,
    data: Path | None,
    profile: str,
    config: Path | None,
    assignments: tuple[str, ...],
    output_format: str,
) -> None:
    """Check, count and hash a data set once, before any timed run.

    train, run and infer reuse the result, or check the data themselves if there is none. Run it
    again after the data change.

    Example: podium data resnet50 --data /data/imagenet --profile full
    """
    with report_missing_modules(), create_temporary_folder() as folder:
        from harness.data_survey import run_data_survey
        from harness.request import build_reading_options

        run_data_survey(
            workload,
            build_reading_options(Profile(profile), data, folder, config, assignments),
            output_format,
        )
