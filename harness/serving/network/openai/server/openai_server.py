"""A server of OpenAI's API in front of a token service: routes and refusals, all on one event loop
in a thread of its own.
"""

import asyncio
import hmac
import logging
import resource
import secrets
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any, Final, cast
from urllib.parse import unquote

import click
from aiohttp import web

from harness.serving.network.access import ServerCredentials, load_key_pair
from harness.serving.network.openai.api_names import (
    CHAT_ROUTE,
    COMPLETIONS_ROUTE,
    FACTS_ROUTE,
    MODELS_ROUTE,
)
from harness.serving.network.openai.refusal_text import PLAIN_CODINGS, shorten_text
from harness.serving.network.openai.server.answer_events import (
    AnswerHead,
    write_model,
    write_model_list,
)
from harness.serving.network.openai.server.answers import (
    StreamedAnswer,
    WholeAnswer,
    convert_to_api_error,
    send_stream,
)
from harness.serving.network.openai.server.http_connection import (
    LINGER_S,
    MAX_CONNECTIONS,
    REQUEST_TIMEOUT_S,
    SWEEP_S,
    ConnectionRoom,
    HttpConnection,
    build_busy_error,
    build_error_response,
    build_json_response,
    read_request_body,
)
from harness.serving.network.openai.server.request_fields import (
    ApiError,
    CompletionRequest,
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
MAX_LOOP_BODY_BYTES: Final = 16 << 10
"""Size in bytes of a request up to which its tokens are made on the event loop: they take
milliseconds, and a change of threads would take longer.
"""
HEALTH_ROUTE: Final = "/health"
ROUTE_METHODS: Final = {
    CHAT_ROUTE: "POST",
    COMPLETIONS_ROUTE: "POST",
    MODELS_ROUTE: "GET",
    HEALTH_ROUTE: "GET",
    FACTS_ROUTE: "GET",
}
ALLOWED_METHODS: Final = {"GET": ("GET", "HEAD"), "POST": ("POST",)}
MODEL_PREFIX: Final = f"{MODELS_ROUTE}/"
HEALTHY: Final = b'{"status":"ok"}'
NO_LOG: Final = logging.CRITICAL + 1
"""Above all levels."""


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
        self.open_calls: set[TokenCall] = set()
        """Calls whose last token has not come."""
        self.is_ending = False
        self.encoding = ThreadPoolExecutor(1, "podium-prompts")
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
        logging.getLogger("aiohttp").setLevel(NO_LOG)  # what it tells has tracebacks
        handler = web.Server(self.answer_request, handler_cancellation=True)
        try:
            server = await self.loop.create_server(
                lambda: HttpConnection(handler, self.room, self.loop),
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
        sweeping = self.loop.create_task(self.sweep_connections())
        await self.ending.wait()
        self.is_ending = True
        sweeping.cancel()
        server.close()
        await self.finish_connections()

    async def sweep_connections(self) -> None:
        """End connections whose clients are too slow, again and again."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self.room.end_late_connections()

    async def finish_connections(self) -> None:
        """Let answers in progress end, and close what is idle; what lasts too long is cut."""
        end = self.loop.time() + STOP_GRACE_S
        while self.room.connections and self.loop.time() < end:
            for connection in tuple(self.room.connections):
                connection.close_when_idle()
            await asyncio.sleep(STOP_POLL_S)
        for connection in tuple(self.room.connections):
            connection.link.abort()
        await asyncio.sleep(STOP_POLL_S)
        self.encoding.shutdown(wait=False, cancel_futures=True)

    async def answer_request(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; aiohttp cancels this where the client goes away."""
        connection = cast(HttpConnection, request.protocol)
        connection.begin_answer()
        try:
            return await self.answer_route(request)
        except ConnectionError:
            raise
        except Exception as error:
            is_last = self.is_ending or not request.content.is_eof()
            return build_error_response(convert_to_api_error(error), is_last=is_last)
        finally:
            connection.end_answer()

    async def answer_route(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; ApiError for one that is not allowed, or cannot be answered. What its
        head says is checked before its body is read.
        """
        self.require_access(request)
        path = request.rel_url.raw_path
        method = require_known_route(request.method, path)
        if method == "POST":
            require_plain_body(request)
            self.require_queue_room(self.require_model())
            return await self.answer_prompt(request, path)
        return build_json_response(self.write_page(self.require_model(), path))

    def require_access(self, request: web.BaseRequest) -> None:
        """ApiError for a request without the token. The scheme's case is free (RFC 9110, 11.1)."""
        if not self.guard.token:
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip(" ").encode("utf-8", "surrogateescape")
        is_same = hmac.compare_digest(given, self.guard.token.encode())
        if scheme.lower() != "bearer" or not is_same:
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "invalid_api_key",
                "the token is missing or wrong",
                {"WWW-Authenticate": "Bearer"},
            )

    def write_page(self, model: ServedModel, path: str) -> bytes:
        """Return the document of a route that is read; ApiError for a model that is not served."""
        name = model.limits.model
        if path.startswith(MODEL_PREFIX):
            asked = unquote(path.removeprefix(MODEL_PREFIX))
            if asked != name:
                raise ApiError(
                    HTTPStatus.NOT_FOUND,
                    "model_not_found",
                    f"no model {asked!r:.80}; this server has {name}",
                )
            return write_model(name, self.started)
        documents = {
            HEALTH_ROUTE: HEALTHY,
            MODELS_ROUTE: write_model_list(name, self.started),
            FACTS_ROUTE: model.facts,
        }
        return documents[path]

    def require_model(self) -> ServedModel:
        """Return what is served; ApiError before it is warm, and when the server ends."""
        if self.is_ending:
            raise build_busy_error("the server ends")
        if self.model is None:
            raise build_busy_error("the model is being prepared")
        return self.model

    def require_queue_room(self, model: ServedModel) -> None:
        """ApiError where slots and queue are full."""
        if len(self.open_calls) >= model.most_calls:
            raise build_busy_error(
                f"{len(self.open_calls):,} answers are in progress or wait already"
            )

    async def answer_prompt(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answer a prompt, whose request's head is allowed."""
        body = await read_request_body(request, self.room)
        model = self.require_model()
        self.require_queue_room(model)
        call = TokenCall(prompt=(), max_tokens=0, caller=None)
        with self.count_open_call(model.service, call):
            asked = await self.read_prompt(model, body, path)
            head = AnswerHead(
                f"{self.prefix}{next(self.numbers)}", model.limits.model, asked.is_chat
            )
            kind = StreamedAnswer if asked.is_streamed else WholeAnswer
            answer = kind(head, asked, model.text.open_stream())
            call.prompt, call.max_tokens, call.caller = asked.prompt, asked.max_tokens, answer
            call.ignores_ends = asked.ignores_ends
            call.wants_log_probabilities = asked.has_log_probabilities
            model.service.submit_prompt(call)
            if asked.is_streamed:
                return await send_stream(request, answer)
            return build_json_response(await answer.ended)

    @contextmanager
    def count_open_call(self, service: TokenService, call: TokenCall) -> Iterator[None]:
        """Count a call as open until its last token has come; nobody waits for the rest of one that
        ends before.
        """
        self.open_calls.add(call)
        try:
            yield
        finally:
            if call in self.open_calls:
                self.open_calls.discard(call)
                service.cancel_call(call)

    async def read_prompt(self, model: ServedModel, body: bytes, path: str) -> CompletionRequest:
        """Read what is asked for; tokens of a large prompt are made on the thread for them."""
        if len(body) <= MAX_LOOP_BODY_BYTES:
            return read_completion_request(model, body, path)
        self.room.body_bytes += len(body)
        try:
            return await self.loop.run_in_executor(
                self.encoding, read_completion_request, model, body, path
            )
        finally:
            self.room.body_bytes -= len(body)

    def hand_out_events(self, events: Sequence[TokenEvent]) -> None:
        """Hand a step's tokens to the answers that wait for them."""
        for event in events:
            call = event.call
            if not call.is_cancelled:
                call.caller.add_event(event)
                if event.is_last:
                    self.open_calls.discard(call)


def read_completion_request(model: ServedModel, body: bytes, path: str) -> CompletionRequest:
    """Read what is asked for; ApiError for what cannot be answered."""
    text = model.text
    try:
        return parse_completion_request(
            body,
            is_chat=path == CHAT_ROUTE,
            limits=model.limits,
            encoders=PromptEncoders(
                encode_text=text.encode_text,
                render_chat=text.render_chat,
                encode_rendered=text.encode_rendered,
                longest_token=text.longest_token,
            ),
        )
    except PromptTextError as error:
        raise build_field_error(str(error)) from error


def require_known_route(asked: str, path: str) -> str:
    """Return the method of a path's route; ApiError if another one is asked, or if there is none.
    What is read with GET may be asked for with HEAD (RFC 9110, section 9.1).
    """
    is_model = path.startswith(MODEL_PREFIX)
    method = ROUTE_METHODS.get(MODELS_ROUTE if is_model else path)
    if method is None:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            "unknown_route",
            f"no route {path!r:.80}; there are {', '.join(ROUTE_METHODS)}",
        )
    if asked not in ALLOWED_METHODS[method]:
        raise ApiError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "wrong_method",
            f"{path} answers {method} alone",
            {"Allow": ", ".join(ALLOWED_METHODS[method])},
        )
    return method


def require_plain_body(request: web.BaseRequest) -> None:
    """ApiError for a compressed body: RFC 9110, section 15.5.16."""
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding not in PLAIN_CODINGS:
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "compressed_body",
            f"the body is compressed ({shorten_text(coding)}): send it plain",
            {"Accept-Encoding": "identity"},
        )


def build_tls_context(guard: ServerCredentials) -> ssl.SSLContext | None:
    """Build the context of a server with a certificate; None without one. OSError if it cannot be
    used.
    """
    if guard.certificate is None or guard.key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    load_key_pair(context, guard)
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
    for package in ("aiohttp", "uvloop", "tokenizers"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # uvloop does not exist for every platform
            continue
    return ", ".join(found)
