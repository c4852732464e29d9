"""The options of `infer` that name servers behind a network, and what they exclude."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from suite.console.parameters import PATH_TYPE
from suite.console.project_defaults import is_given
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario, parse_scenarios

if TYPE_CHECKING:
    from harness.serving.sites import ServingSite

REMOTE_SCENARIOS: Final = (Scenario.OFFLINE, Scenario.SERVER)
"""inference_rules.adoc, Network Division: the datacenter suite only."""

SERVER_OPTIONS: Final = ("engine", "precision", "device", "threads", "framework")
"""Options that belong to `podium serve`."""
LOCAL_ONLY_OPTIONS: Final = ("power", "meter", "weights", "peak")


def add_access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options with which servers let a client in."""
    for option in (
        click.option(
            "--token-file", type=PATH_TYPE, help="File with the token that the servers require."
        ),
        click.option(
            "--ca", type=PATH_TYPE, help="PEM file with the trusted certificates, for TLS."
        ),
    ):
        command = option(command)
    return command


def add_endpoint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name servers."""
    named = click.option(
        "--endpoint",
        "endpoints",
        multiple=True,
        metavar="URL",
        help=(
            "Server to measure, repeatable: grpc[s]://HOST:PORT, or http[s]://HOST:PORT for an"
            " OpenAI-compatible API."
        ),
    )
    return named(add_access_options(command))


def choose_serving_site(values: Mapping[str, Any], scenarios: Sequence[Scenario]) -> "ServingSite":
    """Return where the system is that a command measures: this machine without --endpoint, or its
    servers. RequestError for servers that are not one system, and for unreadable files.
    """
    from harness.serving.setup import LOCAL_SITE

    if not values.get("endpoints"):
        return LOCAL_SITE
    from harness.serving.network.site_choice import choose_remote_site

    return choose_remote_site(
        values["endpoints"], scenarios, ca=values["ca"], token_file=values["token_file"]
    )


def resolve_infer_scenarios(values: Mapping[str, Any], scenario: str) -> tuple[Scenario, ...]:
    """Return the scenarios to run; RequestError for options and scenarios that contradict
    --endpoint, or require it.
    """
    if not values["endpoints"]:
        if values["ca"] or values["token_file"]:
            raise RequestError(f"{'--ca' if values['ca'] else '--token-file'} requires --endpoint")
        return tuple(parse_scenarios(scenario))
    reasons = dict.fromkeys(SERVER_OPTIONS, "the servers decide it") | dict.fromkeys(
        LOCAL_ONLY_OPTIONS, "cannot be combined with --endpoint"
    )
    for name, reason in reasons.items():
        if is_given(name):
            raise RequestError(f"--{name}: {reason}; omit it")
    return parse_network_scenarios(scenario)


def parse_network_scenarios(text: str) -> tuple[Scenario, ...]:
    """Return Offline and Server for `all`; RequestError for a scenario that the Network Division
    does not have.
    """
    if text == "all":
        return REMOTE_SCENARIOS
    found = tuple(parse_scenarios(text))
    if strange := [scenario.label for scenario in found if scenario not in REMOTE_SCENARIOS]:
        raise RequestError(
            f"--scenario {strange[0]}: only Server and Offline are possible over a network"
            " (inference_rules.adoc, Network Division)"
        )
    return found
