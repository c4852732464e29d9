"""HTTP/1.1 on the server's side: one connection's requests, one after the other, and its responses.

httptools parses; this module bounds what it keeps, answers in order, and notices when the client
goes away. A request is parsed when those before it are answered; its body is read when its head is
allowed.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import httptools

from harness.serving.network.openai.api_names import JSON_TYPE
from harness.serving.network.openai.server.answer_events import write_error_document
from harness.serving.network.openai.server.request_fields import ApiError

MAX_HEAD_BYTES: Final = 64 << 10
"""House rule: of one request's first lines; common servers allow 8 to 64 KiB."""
MAX_BODY_BYTES: Final = 4 << 20
"""House rule: 128,000 token ids as JSON have 1 MB."""
MAX_BODIES_BYTES: Final = 256 << 20
"""House rule: of all bodies that arrive at one time; 64 of the longest."""
MAX_UNREAD_BYTES: Final = 64 << 10
"""House rule: of what a client sends ahead, before the server stops reading; it is not parsed."""
PARSED_BYTES: Final = 16 << 10
"""Parsed at once: most requests are shorter, and the shortest are answered in 10 ms together."""
MAX_CONNECTIONS: Final = 8192
"""House rule: twice the default queue, beyond which a request is refused anyway."""
IDLE_TIMEOUT_S: Final = 600.0
"""House rule: for a connection on which nothing happens; as long as a run, whose client opens all
its connections beforehand.
"""
REQUEST_TIMEOUT_S: Final = 30.0
"""House rule: for the arrival of a request that has begun."""
STALLED_TIMEOUT_S: Final = 60.0
"""House rule: for a client that does not read."""
LINGER_S: Final = 2.0
"""How long a refused request is read on and thrown away, so that its client sees the answer."""
EVENT_STREAM_TYPE: Final = b"text/event-stream; charset=utf-8"
OLD_VERSION: Final = "1.0"
CONTINUE_RESPONSE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS_LINES: Final = {
    status: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
LAST_CHUNK: Final = b"0\r\n\r\n"
KNOWN_VERSIONS: Final = frozenset({"1.0", "1.1"})
ABSOLUTE_TARGETS: Final = (b"http://", b"https://")


@dataclass(slots=True)
class HttpRequest:
    """A request that has arrived."""

    method: str = ""
    path: str = ""
    """Without the query."""
    authorization: bytes = b""
    body: bytes = b""
    is_old: bool = False
    """Of HTTP/1.0, which has no chunks."""
    keeps_alive: bool = True
    problem: ApiError | None = None
    """Why it is refused, known before its body is read."""
    target: bytearray = field(default_factory=bytearray)
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    """Bytes of the body that are kept."""
    hosts: int = 0
    is_too_large: bool = False
    expects_continue: bool = False


HeadChecker: TypeAlias = Callable[[HttpRequest], ApiError | None]
"""Says from a request's head why it is refused; None: its body may be read."""
RequestHandler: TypeAlias = "Callable[[HttpConnection, HttpRequest], CancelCallback | None]"
"""Answers a request, at once or later; returns what to call if the client goes away before."""
CancelCallback: TypeAlias = Callable[[], None]


@dataclass(slots=True)
class ConnectionRoom:
    """What the connections of a server share."""

    most_connections: int = MAX_CONNECTIONS
    connections: "set[HttpConnection]" = field(default_factory=set)
    body_bytes: int = 0
    """Of the bodies that have arrived, and are not parsed yet."""


class HttpConnection(asyncio.Protocol):
    """A connection: its parser's callbacks, the requests that wait, and the answer in progress.

    Args:
        handle: answers a request.
        check_head: says whether a request's body may be read.
        room: where open connections are noted.
    """

    def __init__(
        self, handle: RequestHandler, check_head: HeadChecker, room: ConnectionRoom
    ) -> None:
        self.handle, self.check_head, self.room = handle, check_head, room
        callbacks = SimpleNamespace(
            on_message_begin=self.begin_request,
            on_url=self.add_target,
            on_header=self.add_header,
            on_headers_complete=self.finish_head,
            on_body=self.add_body,
            on_message_complete=self.finish_request,
        )
        self.parser: Any = httptools.HttpRequestParser(callbacks)
        self.loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.request = HttpRequest()
        """The one that arrives."""
        self.head_bytes = 0
        """Since the last piece of a body: a head, or the trailers and extensions of chunks."""
        self.is_in_request = False
        self.unread = bytearray()
        """What has arrived, and waits until the requests before it are answered."""
        self.heard_at = self.loop.time()
        self.has_turn = False
        """Whether the loop will call `take_turn`."""
        self.pending: deque[HttpRequest] = deque()
        """Requests that were parsed together with the current one."""
        self.current: HttpRequest | None = None
        """The one that is being answered."""
        self.cancel: CancelCallback | None = None
        self.is_refusing = self.is_writing_paused = self.is_reading_paused = False
        self.timers: dict[str, asyncio.TimerHandle] = {}

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; the kernel finds out about clients that vanish without a word."""
        self.transport = transport
        if len(self.room.connections) >= self.room.most_connections:
            self.refuse_connection()
            return
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.room.connections.add(self)
        self.start_timer("idle", IDLE_TIMEOUT_S, self.close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.room.connections.discard(self)
        self.stop_timers()
        self.drop_requests()
        self.parser = None  # its callbacks name this object

    def eof_received(self) -> None:
        """The client went away: one that still reads looks the same, and does so seldom."""
        self.drop_requests()

    def drop_requests(self) -> None:
        """Answer nothing more, and give up the answer in progress."""
        for request in (*self.pending, self.request):
            self.forget_body(request)
        self.pending.clear()
        self.unread.clear()
        cancel, self.current, self.cancel = self.cancel, None, None
        if cancel is not None:
            cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, or keep it until its turn comes."""
        self.heard_at = self.loop.time()
        if self.is_refusing:
            return
        if self.unread or len(data) > PARSED_BYTES or not self.is_free():
            self.unread += data
        else:
            self.parse_piece(data)
        self.parse_unread()

    def parse_unread(self) -> None:
        """Parse a piece of what arrived, unless a request before it is not answered yet."""
        if self.unread and self.is_free():
            piece = bytes(self.unread[:PARSED_BYTES])
            del self.unread[:PARSED_BYTES]
            self.parse_piece(piece)
        if self.is_free():
            if self.unread:
                self.schedule_turn()
            elif self.is_in_request:
                self.start_timer("request", REQUEST_TIMEOUT_S, self.refuse_slow_request)
        self.adjust_reading()

    def is_free(self) -> bool:
        """Return whether another request may be parsed."""
        return (
            self.current is None
            and not self.pending
            and not (self.is_refusing or self.is_writing_paused or self.transport.is_closing())
        )

    def parse_piece(self, data: bytes) -> None:
        """Parse bytes, and refuse what cannot be a request or need not be read on."""
        self.head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.refuse_request(HTTPStatus.BAD_REQUEST, f"no HTTP request: {error}")
        if not self.is_in_request:
            return
        if self.head_bytes > MAX_HEAD_BYTES:
            self.refuse_request(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request has more than {MAX_HEAD_BYTES:,} bytes of headers",
            )
        elif self.request.problem is not None:
            self.end_input(self.request)

    def adjust_reading(self) -> None:
        """Read on as long as little waits: only who reads notices that the client goes away."""
        is_full = len(self.unread) > MAX_UNREAD_BYTES
        if is_full == self.is_reading_paused or self.transport.is_closing():
            return
        self.is_reading_paused = is_full
        if is_full:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def schedule_turn(self) -> None:
        """Turn to the next request soon; other connections come first."""
        if not self.has_turn:
            self.has_turn = True
            self.loop.call_soon(self.take_turn)

    def take_turn(self) -> None:
        """Answer and parse what waits, unless the connection is gone."""
        self.has_turn = False
        if self.parser is not None:
            self.answer_next()
            self.parse_unread()

    def close_if_silent(self) -> None:
        """Close a connection on which nothing has happened for long; a request that arrives, or is
        answered, has its own limits.
        """
        self.stop_timer("idle")
        is_busy = self.current is not None or self.is_in_request or self.pending
        left = IDLE_TIMEOUT_S if is_busy else self.heard_at + IDLE_TIMEOUT_S - self.loop.time()
        if left > 0:
            self.start_timer("idle", left, self.close_if_silent)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self.is_writing_paused = True
        self.start_timer("stalled", STALLED_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        self.is_writing_paused = False
        self.stop_timer("stalled")
        self.schedule_turn()

    # what httptools calls

    def begin_request(self) -> None:
        """A request begins."""
        self.request = HttpRequest()
        self.is_in_request = True

    def add_target(self, url: bytes) -> None:
        """A part of the target."""
        self.request.target += url

    def add_header(self, name: bytes, value: bytes) -> None:
        """A header field."""
        match name.lower():
            case b"authorization":
                self.request.authorization = value
            case b"host":
                self.request.hosts += 1
            case b"expect":
                self.request.expects_continue = value.lower() == b"100-continue"
            case b"content-length" if len(value) > len(str(MAX_BODY_BYTES)) or (
                value.isdigit() and int(value) > MAX_BODY_BYTES
            ):
                self.request.is_too_large = True

    def finish_head(self) -> None:
        """The head is complete: check it before the body is read."""
        if self.is_refusing:
            return
        request, version = self.request, self.parser.get_http_version()
        request.method = self.parser.get_method().decode("ascii", "replace")
        request.path = extract_path(bytes(request.target))
        request.is_old = version == OLD_VERSION
        if version not in KNOWN_VERSIONS:
            self.refuse_request(
                HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"no HTTP/{version}: use HTTP/1.1"
            )
        elif self.parser.should_upgrade():
            self.refuse_request(HTTPStatus.BAD_REQUEST, "this server speaks HTTP/1.1 alone")
        elif request.hosts > 1 or not (request.hosts or request.is_old):
            self.refuse_request(HTTPStatus.BAD_REQUEST, f"{request.hosts} Host fields instead of 1")
        else:
            self.admit_body(request)

    def admit_body(self, request: HttpRequest) -> None:
        """Note why a body is not read; ask for it if the client waits for a word."""
        request.problem = self.check_head(request)
        if request.problem is None and request.is_too_large:
            request.problem = build_size_error()
        is_next = self.current is None and not self.pending
        if request.expects_continue and request.problem is None and is_next:
            self.transport.write(CONTINUE_RESPONSE)

    def add_body(self, body: bytes) -> None:
        """Keep a piece of the body, unless the request is refused."""
        self.head_bytes = 0
        request = self.request
        if self.is_refusing or request.problem is not None:
            return
        request.size += len(body)
        self.room.body_bytes += len(body)
        request.pieces.append(body)
        if request.size > MAX_BODY_BYTES:
            request.problem = build_size_error()
        elif self.room.body_bytes > MAX_BODIES_BYTES:
            request.problem = ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "unavailable",
                f"more than {MAX_BODIES_BYTES:,} bytes of requests arrive at this time",
            )
        if request.problem is not None:
            self.forget_body(request)

    def forget_body(self, request: HttpRequest) -> None:
        """Keep nothing of a body any more."""
        self.room.body_bytes -= request.size
        request.size, request.body = 0, b""
        request.pieces.clear()

    def finish_request(self) -> None:
        """The request is complete."""
        self.is_in_request = False
        self.head_bytes = 0
        self.stop_timer("request")
        if self.is_refusing:
            return
        self.request.keeps_alive = self.parser.should_keep_alive()
        self.request.body = b"".join(self.request.pieces)
        self.request.pieces.clear()
        self.pending.append(self.request)
        self.answer_next()

    # answers

    def answer_next(self) -> None:
        """Answer requests until one takes longer, or the client reads too slowly."""
        while (
            self.pending
            and self.current is None
            and not self.is_writing_paused
            and not self.transport.is_closing()
        ):
            self.current = request = self.pending.popleft()
            cancel = self.handle(self, request)
            self.forget_body(request)
            self.cancel = cancel if self.current is not None else None

    def send_response(
        self, status: HTTPStatus, body: bytes, *, is_last: bool = False, more: bytes = b""
    ) -> None:
        """Answer the current request with a whole body. `is_last`: the connection closes. `more`:
        further header fields, each with its line end.
        """
        head = self.build_head(status, JSON_TYPE, more, len(body), is_last)
        has_body = self.current is None or self.current.method != "HEAD"
        self.transport.write(head + body if has_body else head)
        self.finish_answer(is_last)

    def send_error(self, error: ApiError, *, is_last: bool = False) -> None:
        """Answer the current request with an error."""
        body = write_error_document(error)
        self.send_response(error.status, body, is_last=is_last, more=error.headers)

    def begin_stream(self) -> bytes:
        """Return the head of a streamed answer to the current request, to be sent with the first
        piece.
        """
        if self.current is not None and self.current.is_old:
            self.current.keeps_alive = False  # only the connection's end tells the stream's
        return self.build_head(HTTPStatus.OK, EVENT_STREAM_TYPE, b"Cache-Control: no-cache\r\n")

    def send_pieces(self, head: bytes, pieces: bytes, *, is_last: bool) -> None:
        """Send pieces of a streamed answer, after its head where it begins. `is_last`: the answer
        ends with them.
        """
        request = self.current
        if request is None:
            return
        if not request.is_old:
            pieces = b"%x\r\n%b\r\n%b" % (len(pieces), pieces, LAST_CHUNK if is_last else b"")
        self.transport.write(head + pieces)
        if is_last:
            self.finish_answer(False)

    def break_stream(self, pieces: bytes) -> None:
        """Send the last pieces of a stream that fails, and close the connection without the
        stream's end.
        """
        if self.current is None:
            return
        self.transport.write(
            pieces if self.current.is_old else b"%x\r\n%b\r\n" % (len(pieces), pieces)
        )
        self.finish_answer(True)

    def build_head(
        self,
        status: HTTPStatus,
        kind: bytes,
        more: bytes,
        length: int | None = None,
        is_last: bool = False,
    ) -> bytes:
        """Return the head of a response. `length`: the body's, None for a stream."""
        request = self.current
        is_old = request is not None and request.is_old
        closes = is_last or request is None or not request.keeps_alive
        framing = (
            b"Content-Length: %d\r\n" % length
            if length is not None
            else b""
            if is_old
            else b"Transfer-Encoding: chunked\r\n"
        )
        return b"%bContent-Type: %b\r\n%b%b%b\r\n" % (
            STATUS_LINES[status],
            kind,
            framing,
            more,
            b"Connection: close\r\n" if closes else b"Connection: keep-alive\r\n" * is_old,
        )

    def finish_answer(self, is_last: bool) -> None:
        """Turn to the next request, or close."""
        request, self.current, self.cancel = self.current, None, None
        self.heard_at = self.loop.time()
        if self.is_refusing and not self.pending:
            self.end_refused_connection()
        elif is_last or request is None or not request.keeps_alive:
            self.start_timer("stalled", STALLED_TIMEOUT_S, self.transport.abort)
            self.transport.close()
        elif self.pending or self.unread or self.is_in_request:
            self.schedule_turn()

    def close_when_idle(self) -> None:
        """Close, after the answer in progress if there is one."""
        if self.current is not None:
            self.current.keeps_alive = False
        elif not self.pending and not self.is_refusing:
            self.transport.close()

    # refusals of what is no request, after which the connection closes

    def refuse_slow_request(self) -> None:
        """Refuse a request that does not arrive."""
        self.refuse_request(
            HTTPStatus.REQUEST_TIMEOUT,
            f"the request did not arrive within {REQUEST_TIMEOUT_S:.0f} s",
        )

    def refuse_request(self, status: HTTPStatus, message: str) -> None:
        """Answer what is no request, behind the answers to those before it."""
        if self.is_refusing or self.transport.is_closing():
            return
        request = self.request if self.is_in_request else HttpRequest()
        request.problem = ApiError(status, "invalid_request", message)
        self.end_input(request)

    def end_input(self, request: HttpRequest) -> None:
        """Answer a refused request as the connection's last one; what follows is thrown away."""
        if self.is_refusing or self.transport.is_closing():
            return
        self.is_refusing, request.keeps_alive = True, False
        self.stop_timer("request")
        self.forget_body(request)
        self.unread.clear()
        self.adjust_reading()
        self.pending.append(request)
        self.answer_next()

    def end_refused_connection(self) -> None:
        """Read on for a moment, so that the client sees why it was refused, and close."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.start_timer("linger", LINGER_S, self.transport.abort)

    def refuse_connection(self) -> None:
        """Close a connection beyond the limit; its client sees why, if it reads in time."""
        self.is_refusing = True
        most = self.room.most_connections
        message = f"{most:,} connections are open already"
        error = ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", message)
        body = write_error_document(error)
        self.transport.write(self.build_head(error.status, JSON_TYPE, b"", len(body), True) + body)
        self.transport.close()

    def start_timer(self, name: str, seconds: float, callback: Callable[[], object]) -> None:
        """Call back later, unless the timer runs already."""
        if name not in self.timers:
            self.timers[name] = self.loop.call_later(seconds, callback)

    def stop_timer(self, name: str) -> None:
        """Stop a timer, if it runs."""
        if (timer := self.timers.pop(name, None)) is not None:
            timer.cancel()

    def stop_timers(self) -> None:
        """Stop all timers."""
        for name in list(self.timers):
            self.stop_timer(name)


def build_size_error() -> ApiError:
    """Return the error of a body that is too large."""
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "invalid_request",
        f"the body has more than {MAX_BODY_BYTES:,} bytes",
    )


def extract_path(target: bytes) -> str:
    """Return a target's path, without the query. Proxies may send the whole address (RFC 9112,
    3.2.2).
    """
    if target.lower().startswith(ABSOLUTE_TARGETS):
        target = b"/" + target.partition(b"://")[2].partition(b"?")[0].partition(b"/")[2]
    return target.partition(b"?")[0].decode("ascii", "replace")
