"""The command `doctor`."""

from pathlib import Path

import click

from harness.missing_modules import report_missing_modules
from suite.console.options import build_format_option
from suite.console.parameters import PATH_TYPE, WORKLOAD_TYPE


@click.command()
@click.argument("workload", required=False, type=WORKLOAD_TYPE, metavar="[WORKLOAD]")
@click.option(
    "--data", type=PATH_TYPE, help="Folder of the real data set, to check whether it can be used."
)
@build_format_option("text", "json")
def doctor(workload: str | None, data: Path | None, output_format: str) -> None:
    """Show versions, what this machine can run, and how to add what is missing; -v shows every
    reason.

    Example: podium doctor resnet50
    """
    with report_missing_modules():
        from harness.doctor.report import print_readiness_report

        print_readiness_report(workload, data, output_format)
