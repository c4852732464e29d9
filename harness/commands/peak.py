"""The command `peak`."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from harness.commands.prompt_options import (
    add_prompt_options,
    is_server_address,
    measure_own_prompts,
    refuse_prompt_options,
)
from harness.commands.study import REPEATS_OPTION, run_study
from harness.serving.network.endpoint_options import add_access_options
from suite.cli import RunOptions, add_run_options
from suite.console.command_help import FoldedCommand
from suite.console.options import CHECKPOINT_OPTION, SERVING_RUN_OPTIONS, build_format_option
from suite.console.parameters import WORKLOAD_TYPE, FiniteRange
from suite.console.project_defaults import is_given
from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario

EVERYDAY_OPTIONS: Final = (
    "scenario",
    "within_ms",
    "percentile",
    "budget_s",
    "profile",
    "engine",
    "data",
    "results",
    "device",
    "prompts",
    "first_token_ms",
    "per_token_ms",
    "share",
    "output_format",
)
"""Parameters that `--help` shows; `--help-all` shows all."""


@click.command(cls=FoldedCommand, everyday=EVERYDAY_OPTIONS)
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD|URL")
@add_run_options(*SERVING_RUN_OPTIONS)
@click.option(
    "--scenario",
    type=click.Choice(["server", "multi-stream"]),
    default="server",
    show_default=True,
    help="server: search for a query rate; multi-stream: search for samples per query.",
)
@click.option(
    "--within-ms",
    type=FiniteRange(min=0, min_open=True),
    help="Latency bound, in ms (default: the round's).",
)
@click.option(
    "--percentile",
    type=FiniteRange(min=50, max=99.9),
    help="Percentage of queries that must meet the bound (default: the round's).",
)
@click.option(
    "--budget-s",
    type=FiniteRange(min=1),
    default=600.0,
    show_default=True,
    help="Time budget of all probes and runs, in seconds.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0.001, max=0.5),
    default=0.02,
    show_default=True,
    help=(
        "Stop when the lowest INVALID rate is at most this share above the highest VALID rate: 0.02"
        " is 2 %."
    ),
)
@CHECKPOINT_OPTION
@REPEATS_OPTION
@add_prompt_options
@add_access_options
@build_format_option("text", "json", "csv")
def peak(
    workload: str,
    options: RunOptions,
    scenario: str,
    checkpoint: Path | None,
    repeats: int,
    output_format: str,
    **values: Any,
) -> None:
    """Find the highest rate at which WORKLOAD meets a latency bound, proven by VALID LoadGen runs.

    Short probes find a bracket. Full runs follow, and the best VALID run is the answer. The search
    is a study, not a result; podium infer --peak adopts its best run as one. A URL in the place of
    WORKLOAD searches for the highest rate at which a --share of your own --prompts is answered
    within both bounds of tokens. To resume an interrupted search, run the same command again.

    Example: podium peak resnet50
    """
    values["scenario"] = Scenario(scenario)
    if is_server_address(workload):
        check_peak_bounds(workload, values)
        measure_own_prompts(
            "peak",
            workload,
            options,
            values,
            scenarios=(Scenario.SERVER,),
            repeats=repeats,
            output_format=output_format,
        )
        return
    refuse_prompt_options(values)
    study = run_study(
        "peak",
        workload,
        options,
        values,
        checkpoint=checkpoint,
        repeats=repeats,
        output_format=output_format,
    )
    if output_format == "text" and study.request.of_round and is_round_search(values):
        command = ("podium", "infer", workload, "--scenario", "server", "--peak")
        print_progress_note(f"next: {shlex.join((*command, *iterate_shared_options()))}")


def check_peak_bounds(url: str, values: Mapping[str, Any]) -> None:
    """RequestError for a search without both bounds of tokens."""
    if values["scenario"] is not Scenario.SERVER:
        raise RequestError(f"--scenario multi-stream with {url}: a query has one prompt; omit it")
    if values["first_token_ms"] is None or values["per_token_ms"] is None:
        raise RequestError(f"{url}: name both bounds, --first-token-ms and --per-token-ms")


def is_round_search(values: Mapping[str, Any]) -> bool:
    """Return whether `podium infer --peak` would search the same."""
    from suite.studies.peak import DEFAULT_PEAK_TOLERANCE

    usual = (Scenario.SERVER, None, None, DEFAULT_PEAK_TOLERANCE)
    names = ("scenario", "within_ms", "percentile", "tolerance")
    return tuple(values[name] for name in names) == usual


def iterate_shared_options() -> Iterator[str]:
    """Yield the options of this command that `podium infer` has too: with others it would search
    another system.
    """
    context = click.get_current_context()
    for each in context.command.params:
        if each.name in (*RunOptions.__dataclass_fields__, "checkpoint") and is_given(each.name):
            chosen = context.params[each.name]
            values = chosen if each.multiple else (chosen,)
            for value in values:
                yield from (each.opts[0], str(value))
