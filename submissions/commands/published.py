"""The command `published`."""

import click

from suite.console.options import build_format_option


@click.command()
@click.argument("workload", required=False)
@click.option(
    "--round",
    metavar="ROUND",
    help='A published round, or "documents" (default: all).',
)
@click.option("--org", help="List only this organisation.")
@click.option(
    "--sort",
    "order",
    type=click.Choice(["round", "value"]),
    default="round",
    show_default=True,
    help="Order of the rows: as in the rounds, or best value first within each kind of figure.",
)
@build_format_option("text", "json", "csv")
def published(
    workload: str | None, round: str | None, org: str | None, order: str, output_format: str
) -> None:
    """List the published results of WORKLOAD, or of all workloads, each with its source.

    Example: podium published resnet50 --round training-v0.7
    """
    from submissions.publications import print_published_results

    print_published_results(workload, round, org, output_format, best_first=order == "value")
