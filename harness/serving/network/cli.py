"""The command serve, and the options of infer that name its servers; thin, so that `--help` loads
no framework.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from harness.installed import installed
from suite.cli import PATH_TYPE, RunOptions, add_common_options
from suite.console.parameters import WORKLOAD_TYPE
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario, parse_scenarios

if TYPE_CHECKING:
    from harness.serving.network.setup import EndpointOptions

REMOTE_SCENARIOS: Final = (Scenario.OFFLINE, Scenario.SERVER)
"""inference_rules.adoc, Network Division: the datacenter suite only."""

SERVER_OPTIONS: Final = ("engine", "precision", "device", "threads", "framework")
"""Options that belong to `podium serve`."""
LOCAL_ONLY_OPTIONS: Final = ("power", "meter", "weights", "peak")


def add_endpoint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name servers."""
    for option in (
        click.option(
            "--token-file", type=PATH_TYPE, help="File with the token that the servers want."
        ),
        click.option(
            "--ca", type=PATH_TYPE, help="PEM file with the certificates to trust, for grpcs://."
        ),
        click.option(
            "--endpoint",
            "endpoints",
            multiple=True,
            metavar="grpc[s]://HOST:PORT",
            help="A server that podium serve runs; may be repeated.",
        ),
    ):
        command = option(command)
    return command


def build_endpoint_options(values: Mapping[str, Any]) -> "EndpointOptions | None":
    """Return the servers that are asked for, if any."""
    from harness.serving.network.setup import EndpointOptions

    return (
        EndpointOptions(
            endpoints=values["endpoints"], ca=values["ca"], token_file=values["token_file"]
        )
        if values["endpoints"]
        else None
    )


def resolve_infer_scenarios(values: Mapping[str, Any], scenario: str) -> tuple[Scenario, ...]:
    """Refuse options and scenarios that belong to a server, or need one; return the scenarios."""
    given = click.get_current_context().get_parameter_source
    if not values["endpoints"]:
        if values["ca"] or values["token_file"]:
            raise RequestError(f"{'--ca' if values['ca'] else '--token-file'} needs --endpoint")
        return tuple(parse_scenarios(scenario))
    reasons = dict.fromkeys(SERVER_OPTIONS, "podium serve has chosen it") | dict.fromkeys(
        LOCAL_ONLY_OPTIONS, "it does not go with --endpoint"
    )
    for name, reason in reasons.items():
        if given(name) is not ParameterSource.DEFAULT:
            raise RequestError(f"--{name}: {reason}; leave it out")
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
            f"--scenario {strange[0]}: over a network there are Server and Offline only"
            " (inference_rules.adoc, Network Division)"
        )
    return found


@click.command("serve")
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_common_options
@click.option(
    "--checkpoint",
    type=PATH_TYPE,
    help="Folder of exported weights; without it, the newest that reached the target.",
)
@click.option(
    "--listen", metavar="HOST:PORT", required=True, help="Where to listen; port 0 takes a free one."
)
@click.option(
    "--server",
    type=click.Choice(["builtin", "triton"]),
    default="builtin",
    show_default=True,
    help="podium's own server, or Triton.",
)
@click.option("--tls-cert", type=PATH_TYPE, help="PEM file with the server's certificate chain.")
@click.option("--tls-key", type=PATH_TYPE, help="PEM file with the certificate's key.")
@click.option("--token-file", type=PATH_TYPE, help="File with the token that clients must have.")
def serve_command(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    listen: str,
    server: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    token_file: Path | None,
) -> None:
    """Serve WORKLOAD to other machines, by KServe's protocol v2 over gRPC, until it is stopped.

    podium infer WORKLOAD --endpoint grpc://HOST:PORT measures it from there.

    Example: podium serve resnet50 --listen 0.0.0.0:8001
    """
    with installed():
        from harness.serving.network.command import serve_over_network

        serve_over_network(
            workload,
            options,
            checkpoint=checkpoint,
            listen=listen,
            server=server,
            files=(tls_cert, tls_key, token_file),
        )
