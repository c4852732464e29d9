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
@build_format_option("text", "json", "csv")
def published(workload: str | None, round: str | None, org: str | None, output_format: str) -> None:
    """List the published results of WORKLOAD, or of all workloads, each with its source.

    Example: podium published resnet50 --round training-v0.7
    """
    from submissions.publications import print_published_results

    print_published_results(workload, round, org, output_format)
