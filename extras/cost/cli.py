"""The command `cost`."""

from pathlib import Path

import click

from suite.console.options import build_format_option, build_label_option
from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


def print_example_prices(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Print the example and end the command, before it asks for anything else."""
    del option
    if not wanted or context.resilient_parsing:
        return
    from extras.cost.prices import EXAMPLE_PRICES

    click.echo(EXAMPLE_PRICES, nl=False)
    context.exit()


@click.command()
@click.argument("paths", nargs=-1, required=True, type=RESULT_PATH_TYPE, metavar="PATH...")
@click.option(
    "--prices",
    type=PATH_TYPE,
    required=True,
    metavar="FILE",
    help="TOML file of prices, each with its source.",
)
@click.option(
    "--example",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_example_prices,
    help="Print a price file to begin with, and exit.",
)
@build_label_option()
@build_format_option("text", "json", "csv")
def cost(
    paths: tuple[Path, ...], prices: Path, labels: tuple[str, ...], output_format: str
) -> None:
    """Compute the cost of a million samples or tokens and of a training run at your prices. The
    cost is a derived figure, never part of a score.

    Energy counts only if the result contains measured power. Latencies have no cost. Rows of a
    sweep are marked; the sweep must pass podium check.

    Example: podium cost results --prices prices.toml
    """
    from extras.cost.command import report_costs

    report_costs(paths, prices, output_format, labels)
