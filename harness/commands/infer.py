"""The command `infer`."""

from pathlib import Path
from typing import Any, Final

import click

from harness.commands.onnx_options import (
    ONNX_FILE_OPTION,
    SHAPE_OPTION,
    VALUE_OPTION,
    WITHIN_OPTION,
    check_file_options,
    measure_onnx_option,
)
from harness.commands.prompt_options import (
    add_prompt_options,
    is_server_address,
    measure_prompt_speed,
    refuse_prompt_options,
)
from harness.missing_modules import report_missing_modules
from harness.serving.network.endpoint_options import (
    add_endpoint_options,
    choose_serving_site,
    resolve_infer_scenarios,
)
from suite.cli import RunOptions, add_run_options
from suite.console.added_options import add_package_options, resolve_package_options
from suite.console.command_help import FoldedCommand
from suite.console.options import CHECKPOINT_OPTION, SERVING_RUN_OPTIONS, build_dry_run_option
from suite.console.parameters import SCENARIO_TYPE, WORKLOAD_TYPE
from suite.dry_run import (
    DryRunEstimate,
    check_results_writable,
    refuse_dry_options,
    report_estimate,
)
from suite.errors import RequestError

EVERYDAY_OPTIONS: Final = (
    "scenario",
    "runs",
    "profile",
    "engine",
    "precision",
    "assignments",
    "data",
    "results",
    "device",
    "checkpoint",
    "dry_run",
    "onnx",
    "endpoints",
    "prompts",
)
"""Parameters that `--help` shows; `--help-all` shows all."""


@click.command(cls=FoldedCommand, everyday=EVERYDAY_OPTIONS)
@click.argument("workload", type=WORKLOAD_TYPE, metavar="[WORKLOAD|URL]", required=False)
@add_run_options(*SERVING_RUN_OPTIONS)
@click.option(
    "--scenario",
    type=SCENARIO_TYPE,
    default="all",
    show_default=True,
    help="LoadGen scenario to run.",
)
@click.option(
    "--mode",
    type=click.Choice(["accuracy", "performance", "all"]),
    default="all",
    show_default=True,
    help="LoadGen mode to run.",
)
@CHECKPOINT_OPTION
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help=(
        "Performance runs per scenario, each of them judged (default: as many as the round"
        " requires)."
    ),
)
@click.option(
    "--weights",
    metavar="random|DIR",
    help="Measure speed only, with random or imported weights; never a result.",
)
@click.option(
    "--peak",
    is_flag=True,
    help=(
        "Search for Server's highest rate within the round's latency bound; the best run of the"
        " search becomes the first performance run."
    ),
)
@build_dry_run_option("answer one query of each scenario")
@click.option(
    "--untrained",
    is_flag=True,
    hidden=True,
    help="With --dry-run: random weights stand in for trained ones; podium run passes it on.",
)
@add_package_options("infer")
@ONNX_FILE_OPTION
@SHAPE_OPTION
@VALUE_OPTION
@WITHIN_OPTION
@add_endpoint_options
@add_prompt_options
def infer(
    workload: str | None,
    options: RunOptions,
    scenario: str,
    mode: str,
    checkpoint: Path | None,
    runs: int | None,
    **values: Any,
) -> DryRunEstimate | None:
    """Serve WORKLOAD under LoadGen: measure its performance and check its accuracy.

    The slowest of several performance runs counts. Three or more give comparisons a confidence
    interval. --peak first searches for the highest rate of Server, and the best run of that search
    becomes the first performance run. --endpoint measures servers, in Offline and Server. --onnx
    measures the speed of any ONNX file, without a workload; a URL in the place of WORKLOAD that of
    any model behind it, with your own --prompts.

    Example: podium infer resnet50 --scenario offline
    """
    weights, peak = values["weights"], values["peak"]
    if workload is not None and is_server_address(workload):
        measure_prompt_speed(workload, options, scenario, runs, values)
        return None
    refuse_prompt_options(values)
    check_file_options(workload, values)
    if workload is None:
        measure_onnx_option(options, scenario, runs, values)
        return None
    options = resolve_package_options("infer", options, values)
    scenarios = resolve_infer_scenarios(values, scenario)
    if values["untrained"] and not values["dry_run"]:
        raise RequestError("--untrained needs --dry-run")
    if weights and (checkpoint or peak or mode == "accuracy"):
        if checkpoint:
            other = "--checkpoint"
        elif peak:
            other = "--peak"
        else:
            other = "--mode accuracy"
        raise RequestError(f"--weights measures speed only; omit {other}")
    with report_missing_modules():
        from harness.progress import Heartbeat
        from harness.serving.dry_run import try_serving
        from harness.serving.infer import serve_workload
        from harness.serving.studies.round_peak import search_round_peak
        from harness.serving.weights.speed import measure_weights_speed

        with Heartbeat():
            if values["dry_run"]:
                refuse_dry_options(peak=peak, endpoint=bool(values["endpoints"]))
                check_results_writable(options.results)
                estimate = try_serving(
                    workload,
                    options,
                    scenarios=scenarios,
                    mode=mode,
                    checkpoint=checkpoint,
                    runs=runs,
                    weights=weights,
                    untrained=values["untrained"],
                )
                return report_estimate(estimate, options.results)
            if weights:
                measure_weights_speed(
                    workload, options, scenarios=scenarios, weights=weights, runs=runs
                )
                return None
            serve_workload(
                workload,
                options,
                scenarios=scenarios,
                mode=mode,
                checkpoint=checkpoint,
                runs=runs,
                search=search_round_peak if peak else None,
                site=choose_serving_site(values, scenarios),
            )
        return None
