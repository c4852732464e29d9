"""The command `compare`."""

from pathlib import Path
from typing import Any

import click

from suite.console.options import build_format_option, build_label_option
from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


@click.command()
@click.argument("paths", nargs=-1, required=True, type=RESULT_PATH_TYPE, metavar="A B...")
@click.option(
    "--baseline",
    metavar="PATH|SYSTEM",
    help=(
        "Results that the others are compared with: one of the paths, or a system in them "
        "(default: the first result of each workload and scenario)."
    ),
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Confidence level of intervals and conclusions, from 0.5 to 0.999.",
)
@click.option(
    "--runs-for",
    metavar="PERCENT",
    help="Report how many runs each side needs to detect a difference this large, for example 5%.",
)
@click.option(
    "--per",
    type=click.Choice(["accelerator", "dollar", "watt"]),
    help=(
        "Add figures per accelerator or per unit of money or energy. They are not official "
        "metrics; latencies have none."
    ),
)
@click.option(
    "--prices", type=PATH_TYPE, metavar="FILE", help="TOML file of prices, for --per dollar."
)
@click.option(
    "--scaling", is_flag=True, help="Show speed-up and efficiency by number of accelerators."
)
@click.option(
    "--published",
    multiple=True,
    metavar="ROUND|documents|FILE.csv",
    help="Show published results beside yours; repeatable.",
)
@click.option(
    "--require",
    type=click.Choice(["comparable", "separable"]),
    help="Exit with 1 unless all results are comparable, or all differences are significant.",
)
@build_label_option()
@click.option(
    "-o",
    "--output",
    type=PATH_TYPE,
    metavar="FILE.html",
    help=(
        "Write a page instead: bars with intervals and conclusions for each scenario, and the"
        " table."
    ),
)
@build_format_option("text", "json", "markdown")
def compare(paths: tuple[Path, ...], **options: Any) -> None:
    """Compare results folders, bundles, or studies of one kind. The first lines are the
    conclusions: for each result the ratio of the speeds with its interval, or the reason why two
    results are not comparable.

    With three runs on each side a conclusion is faster, slower or not separable (the runs do not
    show a difference). With fewer runs it is not tested. Points of studies are compared if they
    measure the same thing. In MLPerf Endpoints submissions, curves of systems with the same name
    are compared.

    Example: podium compare mine.tar.zst theirs.tar.zst --baseline theirs.tar.zst
    """
    from submissions.compare import command

    command.run_compare_command(paths, command.CompareOptions(**options))
