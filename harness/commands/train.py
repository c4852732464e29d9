"""The command `train`."""

from typing import Final

import click

from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions, add_run_options
from suite.console.command_help import FoldedCommand
from suite.console.options import (
    DATA_OPTIONS,
    FILING_OPTIONS,
    INPUT_OPTION,
    MACHINE_OPTIONS,
    MODEL_OPTIONS,
    POWER_OPTIONS,
    TRAINING_PRECISION_OPTION,
    build_dry_run_option,
)
from suite.console.parameters import ENGINE_OR_AUTO_TYPE, SEED_TYPE, WORKLOAD_TYPE, FiniteRange
from suite.console.project_defaults import is_given
from suite.console.screen import get_output_level
from suite.dry_run import (
    DryRunEstimate,
    check_results_writable,
    refuse_dry_options,
    report_estimate,
)

EVERYDAY_OPTIONS: Final = (
    "profile",
    "assignments",
    "data",
    "results",
    "device",
    "seed",
    "runs",
    "resume",
    "dry_run",
)
"""Parameters that `--help` shows; `--help-all` shows all."""


def refuse_serving_engine(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """Refuse --engine, except from `podium run`: training uses the framework's own."""
    if name and not get_output_level().inner:
        raise click.UsageError(
            "--engine is an option of podium infer; training uses --framework, omit --engine"
        )
    return name


@click.command(cls=FoldedCommand, everyday=EVERYDAY_OPTIONS)
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(
    *MODEL_OPTIONS,
    TRAINING_PRECISION_OPTION,
    INPUT_OPTION,
    *DATA_OPTIONS,
    *MACHINE_OPTIONS,
    *FILING_OPTIONS,
    *POWER_OPTIONS,
)
@click.option(
    "--engine",
    type=ENGINE_OR_AUTO_TYPE,
    hidden=True,
    callback=refuse_serving_engine,
    help="Engine that will serve, checked before training; podium run passes it on.",
)
@click.option(
    "--seed",
    type=SEED_TYPE,
    help="Seed of the first run (default: drawn at random and logged).",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help="Number of runs in the set (default: as many as the round requires).",
)
@click.option(
    "--resume",
    is_flag=True,
    help=(
        "Resume an unfinished set from its last checkpoint, with the options it was started with."
    ),
)
@build_dry_run_option("take a few steps and one evaluation")
@click.option(
    "--time-steps",
    type=FiniteRange(min=0.1),
    hidden=True,
    help="Time optimizer steps for so many seconds instead; podium ab --training passes it on.",
)
@click.option(
    "--challenge",
    hidden=True,
    help="Hexadecimal digits from which the nonce is made; podium run passes them on.",
)
def train(
    workload: str,
    options: RunOptions,
    seed: int | None,
    runs: int | None,
    resume: bool,
    dry_run: bool,
    time_steps: float | None,
    challenge: str | None,
) -> DryRunEstimate | None:
    """Train WORKLOAD until it reaches its target quality.

    Example: podium train resnet50 --seed 1
    """
    with report_missing_modules():
        if dry_run:
            refuse_dry_options(resume=resume)
            check_results_writable(options.results)
            from harness.training.dry_run import try_training

            return report_estimate(
                try_training(workload, options, seed=seed, runs=runs), options.results
            )
        if time_steps is not None:
            from harness.step_timing.timed_steps import time_training_steps

            time_training_steps(workload, options, seconds=time_steps, seed=seed)
            return None
        from harness.training.run_set import train_run_set

        given = set(filter(is_given, RunOptions.__dataclass_fields__))
        train_run_set(
            workload, options, seed=seed, runs=runs, resume=resume, given=given, challenge=challenge
        )
        return None
