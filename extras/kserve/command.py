"""`podium serve --api grpc`: a checkpoint behind a network, until it is stopped."""

import threading
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from extras.kserve.builtin import BuiltinServer, check_grpc_installed
from extras.kserve.service import PayloadService
from extras.kserve.triton import TritonServer, check_triton_request
from harness.serving.network.access import ServerCredentials, read_server_credentials
from harness.serving.network.served_system import describe_served_system, set_up_served_system
from harness.serving.network.wire import (
    Endpoint,
    ServerDescription,
    parse_listen_address,
)
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.process import garbage
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.serving_sites import OWN_SERVER
from suite.workload import PayloadInference

TRITON_CHOICE: Final = "triton"


def serve_over_network(
    workload: str,
    options: RunOptions,
    *,
    checkpoint: Path | None,
    listen: str,
    files: tuple[Path | None, Path | None, Path | None],
    server: str = OWN_SERVER,
) -> None:
    """Serve a checkpoint until a signal ends it. `files`: TLS certificate, its key, token."""
    check_grpc_installed()
    certificate, key, token = files
    address = parse_listen_address(listen, certificate is not None)
    credentials = read_server_credentials(address, certificate, key, token)
    if server == TRITON_CHOICE:
        check_triton_request(address, credentials)
    serving_setup = set_up_served_system(workload, options, checkpoint)
    print_progress_note(f"{workload}: preparing the model")
    inference, recorder = serving_setup.system.open_inference()
    if not isinstance(inference, PayloadInference):
        raise RequestError(
            f"{workload}: its Inference has no method `payload`: it cannot be served over a network"
            " (podium help your-workload)"
        )
    service = PayloadService(inference, serving_setup.system.batching)
    service.start()
    garbage.freeze_loaded_objects()
    facts = describe_served_system(
        serving_setup, recorder, server=server, software=describe_grpc_software()
    )
    with raise_signals_in_block():
        run_server_until_signal(facts, service, address, credentials)


def run_server_until_signal(
    facts: ServerDescription,
    service: PayloadService,
    address: Endpoint,
    credentials: ServerCredentials,
) -> None:
    """Serve until a signal comes."""
    network_server: TritonServer | BuiltinServer
    if facts.server == TRITON_CHOICE:
        network_server = TritonServer(facts, service, address)
    else:
        network_server = BuiltinServer(facts, service, address, credentials)
    port = network_server.start()
    where = Endpoint(tls=address.tls, host=address.host, port=port)
    click.echo(
        f"{facts.workload}: {facts.engine} {facts.precision} of checkpoint"
        f" {facts.checkpoint_sha256[:16]} on {where.url}; Ctrl-C ends it"
    )
    try:
        threading.Event().wait()
    except Interrupted as error:
        network_server.stop()
        raise type(error)(
            f"{facts.workload}: {error}; {service.answered:,} samples were answered"
        ) from error


def describe_grpc_software() -> str:
    """Return the packages that answer, with versions."""
    return f"grpcio {version('grpcio')}, tritonclient {version('tritonclient')}"
