"""The command serve; thin, so that `--help` loads no framework."""

from pathlib import Path

import click

from harness.installed import installed
from suite.cli import PATH, Options, common_options
from suite.console.parameters import WORKLOAD


@click.command("serve")
@click.argument("workload", type=WORKLOAD, metavar="WORKLOAD")
@common_options
@click.option("--checkpoint", type=PATH, help="Folder of exported weights; without it, the newest that reached the target.")
@click.option("--listen", metavar="HOST:PORT", required=True, help="Where to listen; port 0 takes a free one.")
@click.option("--server", type=click.Choice(["builtin", "triton"]), default="builtin", show_default=True, help="podium's own server, or Triton.")
@click.option("--tls-cert", type=PATH, help="PEM file with the server's certificate chain.")
@click.option("--tls-key", type=PATH, help="PEM file with the certificate's key.")
@click.option("--token-file", type=PATH, help="File with the token that clients must have.")
def serve_command(
    workload: str, options: Options, checkpoint: Path | None, listen: str, server: str, tls_cert: Path | None, tls_key: Path | None, token_file: Path | None
) -> None:
    """Serve WORKLOAD to other machines, by KServe's protocol v2 over gRPC, until it is stopped.

    podium infer WORKLOAD --endpoint grpc://HOST:PORT measures it from there.

    Example: podium serve resnet50 --listen 0.0.0.0:8001
    """
    with installed():
        from harness.serving.network.command import serve

        serve(workload, options, checkpoint=checkpoint, listen=listen, server=server, files=(tls_cert, tls_key, token_file))
