"""A server of OpenAI's API in front of a token service: routes and refusals, all on one event loop
in a thread of its own.
"""

import asyncio
import hmac
import resource
import secrets
import ssl
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from harness.serving.network.access import ServerCredentials
from harness.serving.network.openai.api_names import (
    CHAT_ROUTE,
    COMPLETIONS_ROUTE,
    FACTS_ROUTE,
    MODELS_ROUTE,
)
from harness.serving.network.openai.server.answer_events import AnswerHead, write_model_list
from harness.serving.network.openai.server.answers import (
    StreamedAnswer,
    TokenAnswer,
    WholeAnswer,
    convert_to_api_error,
)
from harness.serving.network.openai.server.http_connection import (
    LINGER_S,
    MAX_CONNECTIONS,
    REQUEST_TIMEOUT_S,
    CancelCallback,
    ConnectionRoom,
    HttpConnection,
    HttpRequest,
)
from harness.serving.network.openai.server.request_fields import (
    ApiError,
    PromptEncoders,
    PromptLimits,
    build_field_error,
    parse_completion_request,
)
from harness.serving.network.openai.server.served_text import PromptTextError, ServedText
from harness.serving.network.openai.server.token_service import TokenCall, TokenEvent, TokenService
from harness.serving.network.openai.server_pool import create_event_loop
from harness.serving.network.wire import Endpoint
from suite.errors import RequestError

STOP_GRACE_S: Final = 10.0
"""For answers in progress when the server ends."""
STOP_POLL_S: Final = 0.02
START_TIMEOUT_S: Final = 30.0
LISTEN_BACKLOG: Final = 4096
"""Clients open all their connections at once."""
RESERVED_FILES: Final = 128
"""Open files that are not connections of clients."""
HEALTH_ROUTE: Final = "/health"
ROUTE_METHODS: Final = {
    CHAT_ROUTE: "POST",
    COMPLETIONS_ROUTE: "POST",
    MODELS_ROUTE: "GET",
    HEALTH_ROUTE: "GET",
    FACTS_ROUTE: "GET",
}
HEALTHY: Final = b'{"status":"ok"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What is served once it is warm."""

    limits: PromptLimits
    text: ServedText
    service: TokenService
    most_calls: int
    """Calls in slots and in the queue, at most."""
    facts: bytes
    """JSON of what the server says of itself."""


class OpenAiServer:
    """An HTTP server on a thread of its own."""

    def __init__(self, listen: Endpoint, guard: ServerCredentials) -> None:
        self.listen, self.port, self.failure = listen, 0, ""
        self.guard = guard
        self.loop = create_event_loop()
        self.ready, self.ending = threading.Event(), asyncio.Event()
        self.thread = threading.Thread(
            target=self.loop.run_until_complete, args=(self.run_event_loop(),), daemon=True
        )
        self.model: ServedModel | None = None
        self.started = int(time.time())
        self.room = ConnectionRoom()
        self.open_calls = 0
        """Calls without a whole answer."""
        self.is_ending = False
        self.prefix, self.numbers = secrets.token_hex(6), count()

    # called from other threads

    def start_server(self) -> int:
        """Listen, and refuse everything until a model is served; return the port. RequestError if
        the address or the certificate cannot be used.
        """
        self.room.most_connections = limit_connections(raise_file_limit())
        self.loop.set_exception_handler(report_loop_problem)
        self.thread.start()
        if not self.ready.wait(START_TIMEOUT_S) or self.failure:
            raise RequestError(
                f"--listen {self.listen.target}: {self.failure or 'the server did not start'}"
            )
        return self.port

    def serve_model(self, model: ServedModel) -> None:
        """Answer requests from now on."""
        model.service.deliver = self.deliver_events
        self.model = model

    def deliver_events(self, events: Sequence[TokenEvent]) -> None:
        """Hand a step's tokens to the event loop; the service's thread calls it."""
        if events:
            self.loop.call_soon_threadsafe(self.hand_out_events, events)

    def stop_server(self) -> None:
        """End the server; answers in progress get some seconds."""
        self.loop.call_soon_threadsafe(self.ending.set)
        self.thread.join(2 * STOP_GRACE_S)

    # on the event loop

    async def run_event_loop(self) -> None:
        """Run the server until it is stopped."""
        try:
            server = await self.loop.create_server(
                lambda: HttpConnection(self.answer_request, self.check_request_head, self.room),
                self.listen.host,
                self.listen.port,
                backlog=LISTEN_BACKLOG,
                **build_tls_options(self.guard),
            )
            self.port = server.sockets[0].getsockname()[1]
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            self.failure = " ".join(str(error).split()) or type(error).__name__
            self.ready.set()
            return
        self.ready.set()
        await self.ending.wait()
        self.is_ending = True
        server.close()
        await self.finish_connections()

    async def finish_connections(self) -> None:
        """Let answers in progress end, and close what is idle; what lasts too long is cut."""
        end = self.loop.time() + STOP_GRACE_S
        while self.room.connections and self.loop.time() < end:
            for connection in tuple(self.room.connections):
                connection.close_when_idle()
            await asyncio.sleep(STOP_POLL_S)
        for connection in tuple(self.room.connections):
            connection.transport.abort()

    def answer_request(
        self, connection: HttpConnection, request: HttpRequest
    ) -> CancelCallback | None:
        """Answer a request, or queue its prompt."""
        try:
            if request.problem is not None:
                raise request.problem
            return self.answer_route(connection, request)
        except ApiError as error:
            connection.send_error(error, is_last=self.is_ending)
        return None

    def check_request_head(self, request: HttpRequest) -> ApiError | None:
        """Return why a request is refused, whatever its body says."""
        try:
            self.require_access(request)
            if require_known_route(request) == "POST":
                self.require_queue_room(self.require_model())
        except ApiError as error:
            return error
        return None

    def require_access(self, request: HttpRequest) -> None:
        """ApiError for a request without the token. The scheme's case is free (RFC 9110, 11.1)."""
        if not self.guard.token:
            return
        scheme, _, token = request.authorization.partition(b" ")
        is_same = hmac.compare_digest(token.strip(b" "), self.guard.token.encode())
        if scheme.lower() != b"bearer" or not is_same:
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "invalid_api_key",
                "the token is missing or wrong",
                b"WWW-Authenticate: Bearer\r\n",
            )

    def answer_route(
        self, connection: HttpConnection, request: HttpRequest
    ) -> CancelCallback | None:
        """Answer a request that is allowed; ApiError for one that cannot be answered."""
        model = self.require_model()
        if request.method == "POST":
            return self.queue_prompt(model, connection, request)
        documents = {
            HEALTH_ROUTE: HEALTHY,
            MODELS_ROUTE: write_model_list(model.limits.model, self.started),
            FACTS_ROUTE: model.facts,
        }
        connection.send_response(HTTPStatus.OK, documents[request.path])
        return None

    def require_model(self) -> ServedModel:
        """Return what is served; ApiError before it is warm, and when the server ends."""
        if self.is_ending:
            raise build_busy_error("the server ends")
        if self.model is None:
            raise build_busy_error("the model is being prepared")
        return self.model

    def require_queue_room(self, model: ServedModel) -> None:
        """ApiError where slots and queue are full."""
        if self.open_calls >= model.most_calls:
            raise build_busy_error(f"{self.open_calls:,} answers are in progress or wait already")

    def queue_prompt(
        self, model: ServedModel, connection: HttpConnection, request: HttpRequest
    ) -> CancelCallback:
        """Queue a request's prompt; ApiError where the queue is full, and for what cannot be
        answered.
        """
        self.require_queue_room(model)
        is_chat = request.path == CHAT_ROUTE
        text = model.text
        try:
            asked = parse_completion_request(
                request.body,
                is_chat=is_chat,
                limits=model.limits,
                encoders=PromptEncoders(encode_text=text.encode_text, encode_chat=text.encode_chat),
            )
        except PromptTextError as error:
            raise build_field_error(str(error)) from error
        head = AnswerHead(f"{self.prefix}{next(self.numbers)}", model.limits.model, is_chat)
        kind = StreamedAnswer if asked.is_streamed else WholeAnswer
        answer = kind(connection, head, asked, text.open_stream())
        call = TokenCall(prompt=asked.prompt, max_tokens=asked.max_tokens, caller=answer)
        self.open_calls += 1
        model.service.submit_prompt(call)
        return partial(self.cancel_call, model.service, call)

    def cancel_call(self, service: TokenService, call: TokenCall) -> None:
        """Forget a call whose client went away."""
        self.open_calls -= 1
        service.cancel_call(call)

    def hand_out_events(self, events: Sequence[TokenEvent]) -> None:
        """Send a step's tokens to those who wait for them."""
        for event in events:
            if not event.call.is_cancelled:
                self.hand_out_event(event, event.call.caller)

    def hand_out_event(self, event: TokenEvent, answer: TokenAnswer) -> None:
        """Send a token; where that fails, the answer ends with an error, and no other one does."""
        self.open_calls -= event.is_last
        try:
            answer.add_event(event)
        except Exception as error:
            if self.model is not None and not event.is_last:
                self.cancel_call(self.model.service, event.call)
            answer.send_problem(convert_to_api_error(error))


def require_known_route(request: HttpRequest) -> str:
    """Return the method of a request's route; ApiError for another one, or if there is none."""
    method = ROUTE_METHODS.get(request.path)
    if method is None:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            "unknown_route",
            f"no route {request.path!r:.80}; there are {', '.join(ROUTE_METHODS)}",
        )
    if request.method != method:
        raise ApiError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "wrong_method",
            f"{request.path} answers {method} alone",
            f"Allow: {method}\r\n".encode(),
        )
    return method


def build_busy_error(message: str) -> ApiError:
    """Return the error of a request that might be answered at another time."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", message)


def build_tls_context(guard: ServerCredentials) -> ssl.SSLContext | None:
    """Build the context of a server with a certificate; None without one. OSError if it cannot be
    used.
    """
    if guard.certificate is None or guard.key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    with TemporaryDirectory() as folder:  # ssl reads files alone; only this user may enter it
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        certificate.write_bytes(guard.certificate)
        key.write_bytes(guard.key)
        context.load_cert_chain(certificate, key)
    return context


def build_tls_options(guard: ServerCredentials) -> dict[str, Any]:
    """Build what a server with a certificate needs; {} without one. OSError if it cannot be
    used. A handshake must be as quick as a request.
    """
    context = build_tls_context(guard)
    if context is None:
        return {}
    return {
        "ssl": context,
        "ssl_handshake_timeout": REQUEST_TIMEOUT_S,
        "ssl_shutdown_timeout": LINGER_S,
    }


def raise_file_limit() -> int:
    """Allow as many connections as the system allows, and return how many open files that are:
    common shells allow 1,024.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def limit_connections(most_files: int) -> int:
    """Return how many connections fit into so many open files, beside the files of the process."""
    return min(MAX_CONNECTIONS, max(most_files - RESERVED_FILES, most_files // 2))


def report_loop_problem(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell in one line what the event loop could not do, such as taking a connection."""
    problem = context.get("exception") or context["message"]
    click.echo(f"a connection failed: {' '.join(str(problem).split())}", err=True)


def describe_server_software() -> str:
    """Return what parses and what waits, with versions, for clients' records."""
    from importlib.metadata import PackageNotFoundError, version

    found: list[Any] = []
    for package in ("httptools", "uvloop", "tokenizers"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # uvloop does not exist for every platform
            continue
    return ", ".join(found)
