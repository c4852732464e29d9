"""The command `curve`."""

from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from harness.missing_modules import report_missing_modules
from harness.serving.network.endpoint_options import (
    SERVER_OPTIONS,
    add_endpoint_options,
    build_endpoint_options,
)
from suite.cli import RunOptions, add_run_options
from suite.console.options import (
    CHECKPOINT_OPTION,
    DATA_OPTIONS,
    MODEL_OPTIONS,
    OWN_ENGINE_OPTION,
    PRECISION_OPTION,
    SERVING_MACHINE_OPTIONS,
    SYSTEM_OPTIONS,
    build_format_option,
)
from suite.console.parameters import WORKLOAD_TYPE, FiniteRange
from suite.errors import RequestError

MAX_CONCURRENCY: Final = 65_536


def parse_concurrencies(
    context: click.Context, parameter: click.Parameter, text: str
) -> tuple[int, ...]:
    """Read numbers of requests in flight, and return them in rising order; click's error if one is
    none.
    """
    words = text.split(",")
    numbers = {int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 9}
    if len(numbers) != len(words) or not all(1 <= each <= MAX_CONCURRENCY for each in numbers):
        raise click.BadParameter(
            f"{text!r}: use different comma-separated numbers from 1 to {MAX_CONCURRENCY:,}, as in"
            " 1,2,4,8"
        )
    return tuple(sorted(numbers))


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(
    *MODEL_OPTIONS,
    OWN_ENGINE_OPTION,
    PRECISION_OPTION,
    *DATA_OPTIONS,
    *SERVING_MACHINE_OPTIONS,
    *SYSTEM_OPTIONS,
)
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
@add_endpoint_options
@build_format_option("text", "json")
def curve(
    workload: str,
    options: RunOptions,
    concurrencies: tuple[int, ...],
    seconds: float | None,
    checkpoint: Path | None,
    output_format: str,
    **values: Any,
) -> None:
    """Trace throughput against latency of WORKLOAD over the number of requests in flight.

    Each point is a LoadGen run in which the next prompt begins when an answer ends. The curve is a
    study, and not an MLPerf Endpoints result. With --endpoint, podium measures servers. To resume
    an interrupted curve, run the same command again.

    Example: podium curve llama --points 1,2,4,8
    """
    check_curve_options(values)
    with report_missing_modules():
        from harness.progress import Heartbeat
        from harness.serving.curve.command import CurveOptions, measure_curve

        with Heartbeat():
            measure_curve(
                workload,
                options,
                CurveOptions(
                    concurrencies=concurrencies,
                    seconds=seconds,
                    endpoint_options=build_endpoint_options(values),
                ),
                checkpoint,
                output_format,
            )


def check_curve_options(values: dict[str, Any]) -> None:
    """RequestError for options that contradict --endpoint, or require it."""
    given = click.get_current_context().get_parameter_source
    if not values["endpoints"]:
        if values["ca"] or values["token_file"]:
            raise RequestError(f"{'--ca' if values['ca'] else '--token-file'} requires --endpoint")
        return
    for name in SERVER_OPTIONS:
        if given(name) is not ParameterSource.DEFAULT:
            raise RequestError(f"--{name}: podium serve has set it already; omit it")
