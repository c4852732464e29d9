"""The command `runs`, which `podium list runs` calls."""

from pathlib import Path

import click

from suite.console.options import DEFAULT_RESULTS, build_format_option
from suite.console.parameters import RESULT_PATH_TYPE


@click.command()
@click.argument("results", required=False, default=DEFAULT_RESULTS, type=RESULT_PATH_TYPE)
@build_format_option("text", "json")
def runs(results: Path, output_format: str) -> None:
    """List the results in RESULTS, a results folder or bundle, the newest first: day of the last
    run, verdict, workload, scenario, label of the system, and value.

    Without RESULTS, the folder results is listed.

    Example: podium runs results
    """
    from submissions.run_list import print_runs

    print_runs(results, output_format)
