"""The options of `curve`, `peak` and `infer` that are about any server and the user's own prompts:
the commands take the server's address in the place of a workload.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from harness.missing_modules import report_missing_modules
from harness.serving.network.endpoint_options import (
    LOCAL_ONLY_OPTIONS,
    REMOTE_SCENARIOS,
    SERVER_OPTIONS,
)
from suite.cli import RunOptions
from suite.console.parameters import PATH_TYPE, SEED_TYPE, FiniteRange
from suite.console.project_defaults import is_given
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario, parse_scenarios
from suite.units import NS_PER_MS

if TYPE_CHECKING:
    from harness.serving.prompts.setup import PromptOptions
    from suite.studies.measured import MeasuredStudy

ADDRESS_BEGINS: Final = ("http://", "https://")
PROMPT_PARAMETERS: Final = {
    "prompts": "--prompts",
    "tokenizer": "--tokenizer",
    "model": "--model",
    "max_tokens": "--max-tokens",
    "ignore_eos": "--ignore-eos",
    "temperature": "--temperature",
    "request_seed": "--seed",
    "salt": "--salt",
    "body": "--body",
    "first_token_ms": "--first-token-ms",
    "per_token_ms": "--per-token-ms",
    "share": "--share",
}
WORKLOAD_PARAMETERS: Final = {
    "data": "the prompts are the data",
    "checkpoint": "the weights are the server's",
    "mode": "nobody knows the right answers",
    "dry_run": "measuring prompts takes seconds",
    "within_ms": "use --first-token-ms and --per-token-ms",
    "percentile": "use --share",
}
"""Parameter that belongs to workloads -> why it is refused."""
DEFAULT_SHARE: Final = 0.99


def add_prompt_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options."""
    for option in reversed(
        (
            click.option(
                "--prompts",
                metavar="FILE|SIZES",
                help=(
                    "With a URL: prompts as JSON lines or one a line, or sizes of texts that are"
                    " made: 1024x256, uniform:200-2000x64-512 (tokens in x tokens out)."
                ),
            ),
            click.option(
                "--tokenizer",
                type=PATH_TYPE,
                help="The model's tokenizer.json: makes texts, and counts the answers again.",
            ),
            click.option("--model", help="Model to ask for, where the server lists several."),
            click.option(
                "--max-tokens",
                type=click.IntRange(min=1),
                help="Most tokens of an answer (default: the prompt's own, or 256).",
            ),
            click.option(
                "--ignore-eos",
                is_flag=True,
                help="Ask for answers of exactly --max-tokens (vLLM, SGLang, podium serve).",
            ),
            click.option(
                "--temperature", type=FiniteRange(min=0, max=2), help="Of sampling (default: 0)."
            ),
            click.option(
                "--seed",
                "request_seed",
                type=SEED_TYPE,
                help="Seed of made texts, sent with each request.",
            ),
            click.option(
                "--salt",
                is_flag=True,
                help="Begin each request with words of its own, which no prefix cache has.",
            ),
            click.option(
                "--body",
                multiple=True,
                metavar="KEY=VALUE",
                help="A further field of each request, its value as JSON; repeatable.",
            ),
            click.option(
                "--first-token-ms",
                type=FiniteRange(min=0, min_open=True),
                help="Bound of the time to the first token, in ms.",
            ),
            click.option(
                "--per-token-ms",
                type=FiniteRange(min=0, min_open=True),
                help="Bound of the time per further token, in ms.",
            ),
            click.option(
                "--share",
                type=FiniteRange(min=0.5, max=0.999),
                help=f"Share of requests within both bounds (default: {DEFAULT_SHARE:g}).",
            ),
        )
    ):
        command = option(command)
    return command


def is_server_address(workload: str | None) -> bool:
    """Return whether a command was given an address in the place of a workload."""
    return workload is not None and workload.lower().startswith(ADDRESS_BEGINS)


def refuse_prompt_options(values: Mapping[str, Any]) -> None:
    """RequestError for an option that requires an address."""
    for name, option in PROMPT_PARAMETERS.items():
        if values.get(name):
            raise RequestError(f"{option} requires a server's address in the place of the workload")


def measure_own_prompts(
    name: str,
    url: str,
    options: RunOptions,
    values: dict[str, Any],
    *,
    scenarios: tuple[Scenario, ...] = (Scenario.OFFLINE,),
    repeats: int,
    output_format: str = "text",
) -> "MeasuredStudy":
    """Measure a study of the servers at an address, and at those of --endpoint."""
    check_address_options(url, values)
    with report_missing_modules():
        from harness.progress import Heartbeat
        from harness.serving.prompts.study import measure_prompted_study
        from harness.serving.studies.system import StudyOptions

        asked = build_prompt_options(url, values, scenarios)
        study_options = StudyOptions(values=values, repeats=repeats, output_format=output_format)
        with Heartbeat():
            return measure_prompted_study(
                name, add_request_settings(options, values), asked, study_options
            )


def measure_prompt_speed(
    url: str, options: RunOptions, scenario: str, runs: int | None, values: dict[str, Any]
) -> None:
    """Measure the speed of servers in the scenarios, as `infer` is asked to."""
    scenarios = parse_prompt_scenarios(scenario)
    asked = {**values, "scenarios": scenarios, "bound_ns": None}
    measure_own_prompts("speed", url, options, asked, scenarios=scenarios, repeats=runs or 1)


def check_address_options(url: str, values: Mapping[str, Any]) -> None:
    """RequestError for options that a server's address excludes or requires."""
    if not values["prompts"]:
        raise RequestError(
            f"{url}: name what to ask with --prompts: a file, or sizes such as 1024x256"
        )
    for name, reason in WORKLOAD_PARAMETERS.items():
        if is_given(name):
            raise RequestError(f"--{name.replace('_', '-')} with {url}: {reason}; omit it")
    for name in (*SERVER_OPTIONS, *LOCAL_ONLY_OPTIONS):
        if is_given(name):
            raise RequestError(f"--{name} with {url}: it is the server's; omit it")


def build_prompt_options(
    url: str, values: Mapping[str, Any], scenarios: tuple[Scenario, ...]
) -> "PromptOptions":
    """Build the request from the values of a command's options."""
    from harness.serving.network.access import read_client_credentials
    from harness.serving.network.setup import parse_distinct_endpoints
    from harness.serving.prompts.setup import PromptOptions

    endpoints = parse_distinct_endpoints((url, *values.get("endpoints", ())))
    ca, token_file = (values.get(name) for name in ("ca", "token_file"))
    share = DEFAULT_SHARE if values["share"] is None else values["share"]
    return PromptOptions(
        endpoints=endpoints,
        access=read_client_credentials(endpoints, ca, token_file),
        prompts=values["prompts"],
        tokenizer=values["tokenizer"],
        model=values["model"] or "",
        max_tokens=values["max_tokens"],
        ignore_eos=values["ignore_eos"],
        seed=values["request_seed"],
        salt=values["salt"],
        body=values["body"],
        first_token_ns=convert_bound(values["first_token_ms"]),
        per_token_ns=convert_bound(values["per_token_ms"]),
        percentile=100 * share,
        scenarios=scenarios,
    )


def parse_prompt_scenarios(text: str) -> tuple[Scenario, ...]:
    """Return Offline and Server for `all`; RequestError for a scenario that prompts do not have."""
    if text == "all":
        return REMOTE_SCENARIOS
    found = tuple(parse_scenarios(text))
    if Scenario.MULTI_STREAM in found:
        raise RequestError(
            "--scenario multi-stream: a query has one prompt; choose offline, server or"
            " single-stream"
        )
    return found


def convert_bound(bound_ms: float | None) -> int | None:
    """Convert a bound from ms to ns."""
    return None if bound_ms is None else round(bound_ms * NS_PER_MS)


def add_request_settings(options: RunOptions, values: Mapping[str, Any]) -> RunOptions:
    """Return the options with the settings that stand for a command's own options."""
    if values["temperature"] is None:
        return options
    chosen = (*options.assignments, f'endpoint.temperature="{values["temperature"]:g}"')
    return replace(options, assignments=chosen)
