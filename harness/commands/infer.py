"""The command `infer`."""

from pathlib import Path
from typing import Any

import click

from harness.commands.endpoint_options import (
    add_endpoint_options,
    build_endpoint_options,
    resolve_infer_scenarios,
)
from harness.commands.onnx_options import (
    ONNX_FILE_OPTION,
    SHAPE_OPTION,
    WITHIN_OPTION,
    check_file_options,
    measure_onnx_option,
)
from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions, add_run_options
from suite.console.options import CHECKPOINT_OPTION, SERVING_RUN_OPTIONS
from suite.console.parameters import SCENARIO_TYPE, WORKLOAD_TYPE
from suite.errors import RequestError


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="[WORKLOAD]", required=False)
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
@ONNX_FILE_OPTION
@SHAPE_OPTION
@WITHIN_OPTION
@add_endpoint_options
def infer(
    workload: str | None,
    options: RunOptions,
    scenario: str,
    mode: str,
    checkpoint: Path | None,
    runs: int | None,
    **values: Any,
) -> None:
    """Serve WORKLOAD under LoadGen: measure its performance and check its accuracy.

    Of several performance runs, the slowest counts. Three or more give comparisons a confidence
    interval. With --peak, the best run of the search becomes the first performance run of Server.
    With --endpoint, podium measures servers, in the scenarios Offline and Server. With --onnx, it
    measures the speed of any ONNX file.

    Example: podium infer resnet50 --scenario offline
    """
    weights, peak = values["weights"], values["peak"]
    check_file_options(workload, values)
    if workload is None:
        measure_onnx_option(options, scenario, runs, values)
        return
    scenarios = resolve_infer_scenarios(values, scenario)
    if weights and (checkpoint or peak or mode == "accuracy"):
        other = "--checkpoint" if checkpoint else "--peak" if peak else "--mode accuracy"
        raise RequestError(f"--weights measures speed only; omit {other}")
    with report_missing_modules():
        from harness.progress import Heartbeat
        from harness.serving.infer import serve_workload
        from harness.serving.peak.command import search_round_peak
        from harness.serving.weights.speed import measure_weights_speed

        with Heartbeat():
            if weights:
                measure_weights_speed(
                    workload, options, scenarios=scenarios, weights=weights, runs=runs
                )
                return
            serve_workload(
                workload,
                options,
                scenarios=scenarios,
                mode=mode,
                checkpoint=checkpoint,
                runs=runs,
                search=search_round_peak if peak else None,
                endpoint_options=build_endpoint_options(values),
            )
