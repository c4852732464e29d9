"""The command `run`."""

from typing import Final

import click

from suite.cli import RunOptions, add_run_options
from suite.console.command_help import FoldedCommand
from suite.console.options import RUN_OPTIONS, build_dry_run_option
from suite.console.parameters import SEED_TYPE, WORKLOAD_OR_ALL_TYPE
from suite.dry_run import refuse_dry_options

EVERYDAY_OPTIONS: Final = (
    "profile",
    "engine",
    "precision",
    "assignments",
    "data",
    "results",
    "device",
    "seed",
    "runs",
    "dry_run",
)
"""Parameters that `--help` shows; `--help-all` shows all."""


def refuse_scenario(context: click.Context, __: click.Parameter, name: str | None) -> None:
    """Refuse --scenario: a campaign serves all scenarios of the round."""
    if name:
        workload = context.params.get("workload", "WORKLOAD")
        raise click.UsageError(
            "podium run serves every scenario of the round; for one of them run podium train"
            f" {workload} and podium infer {workload} --scenario {name}"
        )


@click.command(cls=FoldedCommand, everyday=EVERYDAY_OPTIONS)
@click.argument("workload", is_eager=True, type=WORKLOAD_OR_ALL_TYPE, metavar="WORKLOAD")
@add_run_options(*RUN_OPTIONS)
@click.option(
    "--seed",
    type=SEED_TYPE,
    help="Seed of the first run (default: drawn at random and logged).",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help=(
        "Number of training runs, and of performance runs per scenario (default: the number that "
        "the round requires)."
    ),
)
@click.option(
    "--challenge",
    metavar="HEX",
    help=(
        "8 to 64 bytes chosen by another party. The campaign's nonce is derived from them, so the "
        "campaign cannot be older than them."
    ),
)
@click.option(
    "--audit", is_flag=True, help="Run MLPerf's compliance tests before packing; see podium audit."
)
@click.option(
    "--peak",
    is_flag=True,
    help=(
        "Search for the highest rate of the Server scenario within the round's latency bound; the "
        "best run of the search becomes the first performance run."
    ),
)
@build_dry_run_option("take a few steps, one evaluation and one query of each scenario")
@click.option("--scenario", hidden=True, expose_value=False, callback=refuse_scenario)
def run(
    workload: str,
    options: RunOptions,
    seed: int | None,
    runs: int | None,
    challenge: str | None,
    audit: bool,
    peak: bool,
    dry_run: bool,
) -> None:
    """Run the whole campaign for WORKLOAD, or for every workload if it is `all`: train, infer,
    check, pack.

    Finished steps are skipped, so the same command resumes an interrupted campaign.

    Example: podium run resnet50
    """
    if dry_run:
        refuse_dry_options(challenge=challenge is not None, audit=audit, peak=peak)
        from submissions.campaign.dry_run import try_campaigns

        try_campaigns(workload, options, seed=seed, runs=runs)
        return
    from submissions.campaign.run import run_campaigns

    run_campaigns(
        workload, options, seed=seed, runs=runs, challenge=challenge, audit=audit, peak=peak
    )
