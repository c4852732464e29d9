"""The command `serve`."""

from pathlib import Path
from typing import Any, Final

import click

from harness.missing_modules import report_missing_modules
from suite import registry
from suite.cli import RunOptions, add_run_options
from suite.console.options import (
    CHECKPOINT_OPTION,
    DATA_OPTIONS,
    MODEL_OPTIONS,
    OWN_ENGINE_OPTION,
    SERVED_PRECISION_OPTION,
    SERVING_MACHINE_OPTIONS,
    SYSTEM_OPTIONS,
)
from suite.console.parameters import PATH_TYPE, WORKLOAD_TYPE
from suite.errors import RequestError
from suite.serving_sites import DEFAULT_QUEUE, OWN_SERVER

GRPC_API: Final = "grpc"
OPENAI_API: Final = "openai"
OFFERED_APIS: Final = sorted(
    {GRPC_API, OPENAI_API, *registry.map_entry_points(registry.SERVER_GROUP)}
)
"""podium's own, which may not be installed, and those of other packages."""


@click.command("serve")
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_run_options(
    *MODEL_OPTIONS,
    OWN_ENGINE_OPTION,
    SERVED_PRECISION_OPTION,
    *DATA_OPTIONS,
    *SERVING_MACHINE_OPTIONS,
    *SYSTEM_OPTIONS,
)
@CHECKPOINT_OPTION
@click.option(
    "--listen",
    metavar="HOST:PORT",
    required=True,
    help="Address to listen on; port 0 selects a free port.",
)
@click.option(
    "--api",
    type=click.Choice(OFFERED_APIS),
    default=GRPC_API,
    show_default=True,
    help="KServe's protocol v2 over gRPC, or OpenAI's API with streamed tokens.",
)
@click.option(
    "--server",
    type=click.Choice([OWN_SERVER, "triton"]),
    default=OWN_SERVER,
    show_default=True,
    help="podium's own server, or Triton, which speaks only gRPC.",
)
@click.option(
    "--queue",
    type=click.IntRange(min=0),
    default=DEFAULT_QUEUE,
    show_default=True,
    help="With --api openai: requests that wait for a slot, at most; further ones are refused.",
)
@click.option("--tls-cert", type=PATH_TYPE, help="PEM file with the server's certificate chain.")
@click.option("--tls-key", type=PATH_TYPE, help="PEM file with the certificate's private key.")
@click.option("--token-file", type=PATH_TYPE, help="File with the token that clients must send.")
def serve_command(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    listen: str,
    api: str,
    server: str,
    queue: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    token_file: Path | None,
) -> None:
    """Serve WORKLOAD to other machines until stopped.

    To measure this server from another machine: podium infer WORKLOAD --endpoint grpc://HOST:PORT,
    or http://HOST:PORT with --api openai, which serves workloads that generate token by token.

    Example: podium serve resnet50 --listen 0.0.0.0:8001
    """
    given: dict[str, Any] = {
        "checkpoint": checkpoint,
        "listen": listen,
        "files": (tls_cert, tls_key, token_file),
    }
    if api == OPENAI_API:
        given["queue"] = queue
    elif queue != DEFAULT_QUEUE:
        raise RequestError(f"--queue: only with --api {OPENAI_API}")
    if api == GRPC_API:
        given["server"] = server
    elif server != OWN_SERVER:
        raise RequestError(f"--server {server}: it speaks only gRPC; omit --api {api}")
    with report_missing_modules():
        serve = registry.load_server_starter(api)
        serve(workload, options, **given)
