"""The command `score`."""

from pathlib import Path

import click

from suite.console.options import build_format_option
from suite.console.parameters import RESULT_PATH_TYPE


@click.command()
@click.argument("paths", nargs=-1, required=True, type=RESULT_PATH_TYPE, metavar="PATH...")
@build_format_option("text", "json", "csv", "mlcommons")
def score(paths: tuple[Path, ...], output_format: str) -> None:
    """Score results folders, parts of them, or bundles: the minutes of each run set, the metric of
    each scenario, and the figures of each point of a submission to MLPerf Endpoints.

    A folder of logs outside a results tree counts as a run set; its logs identify the organisation
    and system. A single training log is scored as one run: to score the set, give its folder. A
    path inside a scenario stands for the whole scenario.

    Results and points that break a rule are listed with `ok: no` (`compliant` in JSON and CSV).
    Exit code 1 means that something could not be scored.

    --format mlcommons prints CSV in the columns of MLCommons' summaries: a row per scenario, or a
    row per system with a column per training benchmark.

    Example: podium score results --format json
    """
    from submissions.score.command import run_score_command

    run_score_command(paths, output_format)
