"""The command `cost`."""

from pathlib import Path

import click

from suite.console.options import build_format_option
from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


@click.command()
@click.argument("paths", nargs=-1, required=True, type=RESULT_PATH_TYPE, metavar="PATH...")
@click.option(
    "--prices",
    type=PATH_TYPE,
    required=True,
    metavar="FILE",
    help="TOML file of prices, each with its source.",
)
@build_format_option("text", "json", "csv")
def cost(paths: tuple[Path, ...], prices: Path, output_format: str) -> None:
    """Compute the cost of a million samples or tokens and of a training run at your prices. The
    cost is a derived figure, never part of a score.

    Energy counts only if the result contains measured power. Latencies have no cost. Rows of a
    sweep are marked; the sweep must pass podium check.

    Example: podium cost results --prices prices.toml
    """
    from submissions.cost.command import report_costs

    report_costs(paths, prices, output_format)
