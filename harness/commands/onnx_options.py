"""The options of `infer` and `sweep` that name an ONNX file, and what they exclude."""

from collections.abc import Mapping
from typing import Any, Final

import click

from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions
from suite.console.parameters import PATH_TYPE, FiniteRange
from suite.console.project_defaults import is_given
from suite.errors import RequestError
from suite.loadgen.scenario import parse_scenarios

ONNX_FILE_HELP: Final = "ONNX file to time, on random inputs or those of --data; never a result."
ONNX_FILE_OPTION: Final = click.option("--onnx", type=PATH_TYPE, help=ONNX_FILE_HELP)
ONNX_FILES_OPTION: Final = click.option(
    "--onnx", type=PATH_TYPE, multiple=True, help=f"{ONNX_FILE_HELP[:-1]}; repeatable."
)
SHAPE_OPTION: Final = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="INPUT=SIZES",
    help=(
        "Sizes of an input of --onnx, where the file leaves them free: input=1,3,224,224;"
        " repeatable. The first one is the batch."
    ),
)
VALUE_OPTION: Final = click.option(
    "--value",
    "fixed",
    multiple=True,
    metavar="INPUT=NUMBER",
    help="Number that an input of --onnx has in every sample: sr=16000; repeatable.",
)
WITHIN_OPTION: Final = click.option(
    "--within-ms",
    type=FiniteRange(min=0, min_open=True),
    help=(
        "Server's latency bound of --onnx, in ms (default: ten times one sample's latency, rounded"
        " up; 15 at least)."
    ),
)
EXCLUDED_OPTIONS: Final = {
    "checkpoint": "the file has its weights",
    "weights": "the file has its weights",
    "framework": "a file needs none",
    "input": "a file has no input pipeline",
    "peak": "only a workload has a rate to search for",
    "mode": "a file's accuracy is not measured",
    "endpoints": "a file is served here",
    "plans": "engines are built from a workload",
    "dry_run": "measuring a file takes seconds",
}
"""Parameter of `infer` -> why it cannot be combined with --onnx."""
OPTION_NAMES: Final = {"endpoints": "endpoint", "dry_run": "dry-run"}


def check_file_options(workload: str | None, values: Mapping[str, Any]) -> None:
    """Raise RequestError for options that contradict --onnx, or require it."""
    if values["onnx"] is None:
        if workload is None:
            raise click.UsageError("nothing to serve: name a WORKLOAD, or a file with --onnx")
        options = {"shapes": "--shape", "fixed": "--value", "within_ms": "--within-ms"}
        for name, option in options.items():
            if values[name]:
                raise RequestError(f"{option} requires --onnx")
        return
    if workload is not None:
        raise RequestError(f"--onnx {values['onnx']}: omit {workload}, or --onnx")
    for name, reason in EXCLUDED_OPTIONS.items():
        if is_given(name):
            raise RequestError(f"--{OPTION_NAMES.get(name, name)} with --onnx: {reason}; omit it")


def measure_onnx_option(
    options: RunOptions, scenario: str, runs: int | None, values: Mapping[str, Any]
) -> None:
    """Measure the file of --onnx."""
    with report_missing_modules():
        from harness.progress import Heartbeat
        from harness.serving.onnx_file.speed import FileRequest, measure_file_speed

        request = FileRequest(
            path=values["onnx"],
            shapes=values["shapes"],
            values=values["fixed"],
            scenarios=tuple(parse_scenarios(scenario)),
            within_ms=values["within_ms"],
            runs=runs,
        )
        with Heartbeat():
            measure_file_speed(options, request)
