"""The command `published`."""

import click

from suite.console.options import build_format_option


@click.command()
@click.argument("workload", required=False)
@click.option(
    "--round",
    metavar="ROUND",
    help='A published round, "documents", or a CSV file of your own (default: all rounds).',
)
@click.option("--org", help="List only this organisation.")
@click.option(
    "--sort",
    "order",
    type=click.Choice(["value", "accelerator", "round"]),
    default="value",
    show_default=True,
    help=(
        "Order of the rows within each kind of figure: best value first, best value per accelerator"
        " first, or as in the rounds."
    ),
)
@build_format_option("text", "json", "csv")
def published(
    workload: str | None, round: str | None, org: str | None, order: str, output_format: str
) -> None:
    """List the published results of WORKLOAD, or of all workloads, with figures per accelerator,
    each with its source.

    Rates are divided by the number of accelerators, times to train are multiplied by it; latencies
    have no such figure. MLPerf's names of a workload count, too (llama31_8b, ssd-resnet34).

    Example: podium published resnet50 --round training-v0.7
    """
    from submissions.publications import RowOrder, print_published_results

    print_published_results(workload, round, org, output_format, RowOrder(order))
