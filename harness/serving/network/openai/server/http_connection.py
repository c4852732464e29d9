"""HTTP/1.1 on the server's side: what aiohttp does not say of a connection.

aiohttp parses requests, keeps their order and writes responses; this module says which connections
are refused or ended, how large a body may be, and that every error is the API's.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from harness.serving.network.openai.refusal_text import shorten_text
from harness.serving.network.openai.server.answer_events import write_error_document
from harness.serving.network.openai.server.request_fields import ApiError

MAX_BODY_BYTES: Final = 4 << 20
"""House rule: 128,000 token ids as JSON have 1 MB."""
MAX_BODIES_BYTES: Final = 256 << 20
"""House rule: of all bodies that arrive at one time; 64 of the longest."""
MAX_FIELD_BYTES: Final = 8 << 10
"""House rule: of a target or a header field; common servers allow 8 KiB."""
MAX_FIELDS: Final = 64
"""House rule: header fields of a request; common clients send up to 20."""
READ_AHEAD_BYTES: Final = 16 << 10
"""Of each body that aiohttp reads before it is asked for."""
MAX_CONNECTIONS: Final = 8192
"""House rule: twice the default queue, beyond which a request is refused anyway."""
IDLE_TIMEOUT_S: Final = 600.0
"""House rule: for a connection on which nothing happens; as long as a run, whose client opens all
its connections beforehand.
"""
REQUEST_TIMEOUT_S: Final = 30.0
"""House rule: for the arrival of a head that has begun, and for that of its body."""
STALLED_TIMEOUT_S: Final = 60.0
"""House rule: for a client that does not read."""
LINGER_S: Final = 2.0
"""How long a refused request is read on and thrown away, so that its client sees the answer."""
SWEEP_S: Final = 1.0
"""Between two looks for clients that are too slow."""
COMMON_HEADERS: Final = {"Server": "podium"}
JSON_HEADERS: Final = COMMON_HEADERS | {"Content-Type": "application/json"}
STREAM_HEADERS: Final = COMMON_HEADERS | {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
}
CONTINUE_RESPONSE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(slots=True)
class ConnectionRoom:
    """What the connections of a server share."""

    most_connections: int = MAX_CONNECTIONS
    connections: "set[HttpConnection]" = field(default_factory=set)
    body_bytes: int = 0
    """Of the bodies that have arrived, and are not parsed yet."""

    def end_late_connections(self) -> None:
        """End the connections whose clients are too slow."""
        now = monotonic()
        for connection in tuple(self.connections):
            connection.end_if_late(now)


class HttpConnection(web.RequestHandler):
    """A connection: aiohttp's, with the limits of its client.

    Args:
        server: answers its requests.
        room: where open connections are noted.
    """

    __slots__ = ("head_since", "is_answering", "link", "room", "stalled_since")

    def __init__(
        self, server: web.Server, room: ConnectionRoom, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # its own servers take None for no log
            auto_decompress=False,
            keepalive_timeout=IDLE_TIMEOUT_S,
            lingering_time=LINGER_S,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_FIELDS,
            max_line_size=MAX_FIELD_BYTES,
            read_bufsize=READ_AHEAD_BYTES,
        )
        self.room = room
        self.link: Any = None
        """The transport, which aiohttp forgets when it closes it."""
        self.is_answering = False
        self.head_since: float | None = None
        """When something arrived that is no whole head yet."""
        self.stalled_since: float | None = None
        """Since when the client does not read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many."""
        super().connection_made(transport)
        self.link = transport
        most = self.room.most_connections
        if len(self.room.connections) < most:
            self.room.connections.add(self)
        else:
            self.refuse_client(build_busy_error(f"{most:,} connections are open already"))

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is gone."""
        self.room.connections.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and note when a head begins."""
        if data and self.head_since is None and not self.is_answering:
            self.head_since = monotonic()
        super().data_received(data)

    def begin_answer(self) -> None:
        """A head is whole."""
        self.is_answering, self.head_since = True, None

    def end_answer(self) -> None:
        """What arrives now is another head."""
        self.is_answering = False

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        super().pause_writing()
        self.stalled_since = monotonic()

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self.stalled_since = None

    def end_if_late(self, now: float) -> None:
        """End a connection whose client does not send the rest of a head, or does not read."""
        if self.stalled_since is None and self.link.is_closing():
            self.stalled_since = now
        if self.stalled_since is not None and now - self.stalled_since >= STALLED_TIMEOUT_S:
            self.link.abort()
        elif self.head_since is not None and now - self.head_since >= REQUEST_TIMEOUT_S:
            self.refuse_client(build_timeout_error())

    def close_when_idle(self) -> None:
        """Close, after the answer in progress if there is one."""
        if self.is_answering:
            self.close()
        else:
            self.force_close()

    def refuse_client(self, error: ApiError) -> None:
        """Say why there is no answer to what is no request, and close."""
        self.head_since = None
        body = write_error_document(error)
        head = f"HTTP/1.1 {error.status.value} {error.status.phrase}\r\nConnection: close\r\n"
        fields = {**JSON_HEADERS, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.link.write(f"{head}{lines}\r\n".encode() + body)
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no request."""
        told = HTTPStatus(status)
        if isinstance(exc, LineTooLong):
            told = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        sentence = shorten_text(f"no HTTP request: {message or told.phrase}")
        return build_error_response(ApiError(told, "invalid_request", sentence), is_last=True)


def build_json_response(
    body: bytes, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] = JSON_HEADERS
) -> web.Response:
    """Return a response with a document."""
    return web.Response(body=body, status=status, headers=headers)


def build_error_response(error: ApiError, *, is_last: bool) -> web.Response:
    """Return a response with an error. `is_last`: the connection closes."""
    closing = {"Connection": "close"} if is_last else {}
    headers = JSON_HEADERS | error.headers | closing
    response = build_json_response(write_error_document(error), error.status, headers)
    if is_last:
        response.force_close()
    return response


async def read_request_body(request: web.BaseRequest, room: ConnectionRoom) -> bytes:
    """Read a body, which its head allows; ApiError for one that is too large, or does not arrive.
    Most are here when their head is.
    """
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise build_size_error()
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(CONTINUE_RESPONSE)
        request.writer.output_size = 0  # of the response, which has not begun
    if request.content.is_eof():
        return request.content.read_nowait()
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            return await join_body_pieces(request, room)
    except TimeoutError as error:
        raise build_timeout_error() from error
    except web.RequestPayloadError as error:
        raise ApiError(
            HTTPStatus.BAD_REQUEST, "invalid_request", shorten_text(f"no HTTP request: {error}")
        ) from error


async def join_body_pieces(request: web.BaseRequest, room: ConnectionRoom) -> bytes:
    """Read a body piece by piece, within its own limit and that of all."""
    pieces, size = list[bytes](), 0
    try:
        while piece := await request.content.readany():
            pieces.append(piece)
            size += len(piece)
            room.body_bytes += len(piece)
            if size > MAX_BODY_BYTES:
                raise build_size_error()
            if room.body_bytes > MAX_BODIES_BYTES:
                raise build_busy_error(
                    f"more than {MAX_BODIES_BYTES:,} bytes of requests arrive at this time"
                )
    finally:
        room.body_bytes -= size
    return b"".join(pieces)


def build_busy_error(message: str) -> ApiError:
    """Return the error of a request that might be answered at another time."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", message)


def build_timeout_error() -> ApiError:
    """Return the error of a request that does not arrive."""
    return ApiError(
        HTTPStatus.REQUEST_TIMEOUT,
        "invalid_request",
        f"the request did not arrive within {REQUEST_TIMEOUT_S:.0f} s",
    )


def build_size_error() -> ApiError:
    """Return the error of a body that is too large."""
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "invalid_request",
        f"the body has more than {MAX_BODY_BYTES:,} bytes",
    )
