"""The command `ab`."""

from typing import Any, Final

import click

from suite.cli import RunOptions, add_run_options
from suite.console.command_help import FoldedCommand
from suite.console.options import (
    CHECKPOINT_OPTION,
    DATA_OPTIONS,
    MODEL_OPTIONS,
    OWN_ENGINE_OPTION,
    SERVED_PRECISION_OPTION,
    SERVING_MACHINE_OPTIONS,
    build_dry_run_option,
    build_format_option,
)
from suite.console.parameters import PATH_TYPE, SEED_TYPE, WORKLOAD_TYPE, FiniteRange
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario

EVERYDAY_OPTIONS: Final = (
    "a",
    "b",
    "a_python",
    "b_python",
    "difference",
    "minutes",
    "seconds",
    "scenario",
    "training",
    "require",
    "profile",
    "engine",
    "results",
    "dry_run",
    "output_format",
)
"""Parameters that `--help` shows; `--help-all` shows all."""
PROMPT_OPTIONS: Final = {
    "prompts": "prompts",
    "tokenizer": "tokenizer",
    "model": "model",
    "max_tokens": "max-tokens",
    "ignore_eos": "ignore-eos",
}
"""Parameter of own prompts -> option of `podium infer`."""


def parse_percentage(_: click.Context, __: click.Parameter, text: str) -> float:
    """Return a share that is written as people do: 3% or 3 is 0.03."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError as error:
        raise click.BadParameter(f"'{text}' is no percentage; write 3%") from error
    if not 0 < share < 1:
        raise click.BadParameter(f"'{text}' is not between 0% and 100%")
    return share


@click.command(cls=FoldedCommand, everyday=EVERYDAY_OPTIONS)
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@click.option(
    "--a",
    multiple=True,
    metavar="KEY=VALUE|URL",
    help=(
        "What side A has of its own: engine, precision, threads, device, checkpoint, framework,"
        " any setting, env.NAME, or a server's address; repeatable."
    ),
)
@click.option("--b", multiple=True, metavar="KEY=VALUE|URL", help="The same of side B.")
@click.option(
    "--a-python",
    type=PATH_TYPE,
    metavar="VENV",
    help="Virtual environment that side A runs in: another podium, PyTorch or engine.",
)
@click.option("--b-python", type=PATH_TYPE, metavar="VENV", help="The same of side B.")
@click.option(
    "--difference",
    callback=parse_percentage,
    default="3%",
    show_default=True,
    metavar="PERCENT",
    help="A difference in speed below this does not matter.",
)
@click.option(
    "--minutes",
    type=FiniteRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Budget of all runs. The same command with more of them continues.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Timed work of each run, at least.",
)
@click.option(
    "--scenario",
    type=click.Choice([each.value for each in Scenario]),
    default=Scenario.OFFLINE.value,
    show_default=True,
    help="LoadGen scenario; server compares p99 latencies at one --set server.target_qps.",
)
@click.option(
    "--training",
    is_flag=True,
    help="Compare optimizer steps of the training, in samples/s, instead of answers.",
)
@click.option(
    "--require",
    type=click.Choice(["faster", "not-slower"]),
    help="Exit with 1 unless B is shown to be faster, or if it is shown to be slower.",
)
@click.option(
    "--accuracy/--no-accuracy",
    default=True,
    show_default=True,
    help="Compare the answers of both sides to the accuracy set, too.",
)
@click.option("--seed", type=SEED_TYPE, help="Of the order of the blocks (default: drawn).")
@click.option(
    "--prompts", metavar="FILE|SIZES", help="With two servers: your own prompts, as for infer."
)
@click.option("--tokenizer", type=PATH_TYPE, help="With --prompts: the model's tokenizer.json.")
@click.option("--model", help="With --prompts: model to ask for.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="With --prompts: of an answer.")
@click.option("--ignore-eos", is_flag=True, help="With --prompts: answers of full length.")
@add_run_options(
    *MODEL_OPTIONS,
    OWN_ENGINE_OPTION,
    SERVED_PRECISION_OPTION,
    *DATA_OPTIONS,
    *SERVING_MACHINE_OPTIONS,
)
@CHECKPOINT_OPTION
@build_dry_run_option("answer one query with each side")
@build_format_option("text", "json", "csv")
def ab(
    workload: str,
    options: RunOptions,
    a: tuple[str, ...],
    b: tuple[str, ...],
    require: str | None,
    dry_run: bool,
    output_format: str,
    **values: Any,
) -> None:
    """Tell whether side B serves (or trains) WORKLOAD faster than side A, slower, or without a
    difference that matters, in the fewest runs that can say so.

    Each run is a podium infer in a process of its own. Blocks of four runs, ABBA or BAAB, cancel
    what drifts; the comparison stops as soon as it is decided, or when --minutes are used up (exit
    75: the same command with more of them continues). Exit 1: B has lost accuracy.

    Example: podium ab resnet50 --a engine=torch --b engine=onnxruntime --difference 3%
    """
    from submissions.ab.driver import run_ab
    from submissions.ab.side_options import AskedComparison

    prompts = {option: values.pop(name) for name, option in PROMPT_OPTIONS.items()}
    if not prompts["prompts"]:
        for option, value in prompts.items():
            if value:
                raise RequestError(f"--{option} requires --prompts")
        prompts = {}
    asked = AskedComparison(workload=workload, options=options, a=a, b=b, prompts=prompts, **values)
    run_ab(asked, output_format=output_format, require=require, dry_run=dry_run)
