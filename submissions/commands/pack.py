"""The command `pack`."""

from pathlib import Path

import click

from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


@click.command()
@click.argument("results", type=RESULT_PATH_TYPE)
@click.option(
    "-o",
    "--output",
    "bundle",
    type=PATH_TYPE,
    required=True,
    metavar="BUNDLE",
    help="Bundle to write (.tar.zst).",
)
@click.option("--workload", "workloads", multiple=True, help="Pack only this workload; repeatable.")
@click.option("--system", "systems", multiple=True, help="Pack only this system; repeatable.")
@click.option("--force", is_flag=True, help="Replace BUNDLE if it exists.")
def pack(
    results: Path,
    bundle: Path,
    workloads: tuple[str, ...],
    systems: tuple[str, ...],
    force: bool,
) -> None:
    """Seal RESULTS into a bundle. Results that podium check rejects are not packed.

    Example: podium pack results -o mine.tar.zst
    """
    from submissions.pack.bundle import check_bundle_path, list_failed_audits, pack_results

    check_bundle_path(bundle, replace=force)
    packed = pack_results(results, bundle, workloads, systems)
    click.echo(f"{packed}: {packed.stat().st_size} bytes, sealed")
    for sentence in list_failed_audits(packed):
        click.echo(f"  {sentence}; the result keeps its verdict, and shows this beside it")
