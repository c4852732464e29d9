"""`podium serve --api openai`: a checkpoint that generates token by token, until it is stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click
import msgspec

from harness.serving.network.access import read_server_credentials
from harness.serving.network.openai.server.served_text import OPENAI_EXTRA, ServedText
from harness.serving.network.openai.server.token_service import TokenService
from harness.serving.network.served_system import describe_served_system, set_up_served_system
from harness.serving.network.wire import Endpoint, parse_listen_address
from harness.serving.setup import ServingSetup
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import JudgedError, MissingError, RequestError
from suite.process import garbage
from suite.process.installation import format_install_command
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.serving_sites import DEFAULT_QUEUE, OWN_SERVER
from suite.workload import (
    GeneratingInference,
    Inference,
    LikelihoodGenerator,
    PromptGenerator,
)

if TYPE_CHECKING:
    from harness.serving.network.openai.server.openai_server import OpenAiServer


class ServerStopped(Interrupted):
    """A signal that ended a server in order."""

    exit_code: ClassVar[int] = 0


def serve_openai(
    workload: str,
    options: RunOptions,
    *,
    checkpoint: Path | None,
    listen: str,
    files: tuple[Path | None, Path | None, Path | None],
    queue: int = DEFAULT_QUEUE,
) -> None:
    """Serve a checkpoint until a signal ends it. `files`: TLS certificate, its key, token."""
    check_openai_installed()
    from harness.serving.network.openai.server.openai_server import OpenAiServer

    certificate, key, token = files
    address = parse_listen_address(listen, certificate is not None)
    credentials = read_server_credentials(address, certificate, key, token)
    serving_setup = set_up_served_system(workload, options, checkpoint)
    text = ServedText(serving_setup.checkpoint.folder)
    server = OpenAiServer(address, credentials)
    with raise_signals_in_block(), end_server_in_order(server, workload):
        port = server.start_server()
        print_progress_note(f"{workload}: preparing the model")
        service = start_model(server, serving_setup, text, queue)
        where = Endpoint(tls=address.tls, host=address.host, port=port).target
        click.echo(
            f"{workload}: {serving_setup.request.engine} {serving_setup.precision.value} of"
            f" checkpoint {serving_setup.checkpoint.record.sha256[:16]} on"
            f" http{'s' if address.tls else ''}://{where}; Ctrl-C ends it"
        )
        service.ended.wait()
        raise JudgedError(f"{workload}: the generator failed: {service.failure}")


@contextmanager
def end_server_in_order(server: "OpenAiServer", workload: str) -> Iterator[None]:
    """Let answers in progress end when a signal comes."""
    try:
        yield
    except Interrupted as error:
        server.stop_server()
        answered = server.model.service.answered if server.model else 0
        raise ServerStopped(f"{workload}: {error}; {answered:,} prompts were answered") from error


def start_model(
    server: "OpenAiServer", serving_setup: ServingSetup, text: ServedText, queue: int
) -> TokenService:
    """Load and warm up the model, then let the server answer."""
    from harness.serving.network.openai.server.openai_server import (
        ServedModel,
        describe_server_software,
    )
    from harness.serving.network.openai.server.request_fields import PromptLimits

    inference, recorder = serving_setup.system.open_inference()
    service = TokenService(
        require_generating_inference(inference, serving_setup.request.name).open_generator,
        text.ends,
    )
    generator: PromptGenerator = service.start_service()
    garbage.freeze_loaded_objects()
    facts = describe_served_system(
        serving_setup, recorder, server=OWN_SERVER, software=describe_server_software()
    )
    server.serve_model(
        ServedModel(
            limits=PromptLimits(
                model=serving_setup.request.name,
                vocabulary_size=generator.vocabulary_size,
                max_sequence_tokens=generator.max_sequence_tokens,
                max_new_tokens=generator.max_new_tokens,
                has_log_probabilities=isinstance(generator, LikelihoodGenerator),
            ),
            text=text,
            service=service,
            most_calls=generator.slots + queue,
            facts=msgspec.json.encode(facts),
        )
    )
    return service


def require_generating_inference(inference: Inference, workload: str) -> GeneratingInference:
    """Return an inference that generates token by token; RequestError for another."""
    if isinstance(inference, GeneratingInference):
        return inference
    raise RequestError(
        f"{workload}: its Inference does not generate token by token"
        " (suite.workload.GeneratingInference): it cannot be served by --api openai"
    )


def check_openai_installed() -> None:
    """Report early, in one sentence, if a package of the extra is missing."""
    try:
        import aiohttp  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise MissingError(
            f"{error.name} is not installed: {format_install_command(OPENAI_EXTRA)}"
        ) from error
