"""The command `curve`."""

from pathlib import Path
from typing import Any, Final

import click

from harness.commands.prompt_options import (
    add_prompt_options,
    is_server_address,
    measure_own_prompts,
    refuse_prompt_options,
)
from harness.commands.study import (
    REPEATS_OPTION,
    STUDY_RUN_OPTIONS,
    check_server_options,
    run_study,
)
from harness.serving.network.endpoint_options import add_endpoint_options
from suite.cli import RunOptions, add_run_options
from suite.console.command_help import FoldedCommand
from suite.console.options import CHECKPOINT_OPTION, build_format_option
from suite.console.parameters import WORKLOAD_TYPE, FiniteRange

EVERYDAY_OPTIONS: Final = (
    "concurrencies",
    "seconds",
    "profile",
    "data",
    "results",
    "device",
    "checkpoint",
    "endpoints",
    "prompts",
    "first_token_ms",
    "per_token_ms",
    "output_format",
)
"""Parameters that `--help` shows; `--help-all` shows all."""
MAX_CONCURRENCY: Final = 65_536


def parse_concurrencies(
    context: click.Context, parameter: click.Parameter, text: str
) -> tuple[int, ...]:
    """Read numbers of requests in flight, and return them in rising order; click's error if one is
    none.
    """
    words = [word.strip() for word in text.split(",")]
    numbers = {int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 9}
    if len(numbers) != len(words) or not all(1 <= each <= MAX_CONCURRENCY for each in numbers):
        raise click.BadParameter(
            f"{text!r}: use different comma-separated numbers from 1 to {MAX_CONCURRENCY:,}, as in"
            " 1,2,4,8"
        )
    return tuple(sorted(numbers))


@click.command(cls=FoldedCommand, everyday=EVERYDAY_OPTIONS)
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD|URL")
@add_run_options(*STUDY_RUN_OPTIONS)
@click.option(
    "--points",
    "concurrencies",
    default="1,2,4,8,16,32,64",
    show_default=True,
    callback=parse_concurrencies,
    help="Numbers of requests in flight, one point for each.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0.1),
    help="Minimum duration of a point, in seconds (default: the round's for Offline).",
)
@CHECKPOINT_OPTION
@REPEATS_OPTION
@add_endpoint_options
@add_prompt_options
@build_format_option("text", "json", "csv")
def curve(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    repeats: int,
    output_format: str,
    **values: Any,
) -> None:
    """Trace throughput against latency of WORKLOAD over the number of requests in flight.

    Each point is a LoadGen run in which the next prompt begins when an answer ends. The curve is a
    study, and not an MLPerf Endpoints result. With --endpoint, podium measures servers. A URL in
    the place of WORKLOAD measures any model behind it with your own --prompts. To resume an
    interrupted curve, run the same command again.

    Example: podium curve llama --points 1,2,4,8
    """
    if is_server_address(workload):
        measure_own_prompts(
            "curve", workload, options, values, repeats=repeats, output_format=output_format
        )
        return
    refuse_prompt_options(values)
    check_server_options(values)
    run_study(
        "curve",
        workload,
        options,
        values,
        checkpoint=checkpoint,
        repeats=repeats,
        output_format=output_format,
    )
