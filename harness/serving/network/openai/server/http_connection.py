"""HTTP/1.1 on the server's side: one connection's requests, one after the other, and its responses.

httptools parses; this module bounds what it keeps, answers in order, and notices when the client
goes away.
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
MAX_PENDING_REQUESTS: Final = 16
"""Requests that a client may send ahead before the server stops reading."""
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
    target: bytearray = field(default_factory=bytearray)
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    expects_continue: bool = False


RequestHandler: TypeAlias = "Callable[[HttpConnection, HttpRequest], CancelCallback | None]"
"""Answers a request, at once or later; returns what to call if the client goes away before."""
CancelCallback: TypeAlias = Callable[[], None]


class HttpConnection(asyncio.Protocol):
    """A connection: its parser's callbacks, the requests that wait, and the answer in progress.

    Args:
        handle: answers a request.
        connections: where open connections are noted.
    """

    def __init__(self, handle: RequestHandler, connections: "set[HttpConnection]") -> None:
        self.handle, self.connections = handle, connections
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
        self.pending: deque[HttpRequest] = deque()
        self.current: HttpRequest | None = None
        """The one that is being answered."""
        self.cancel: CancelCallback | None = None
        self.is_refusing = self.is_writing_paused = self.is_reading_paused = False
        self.timers: dict[str, asyncio.TimerHandle] = {}

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; the kernel finds out about clients that vanish without a word."""
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.connections.discard(self)
        self.stop_timers()
        self.drop_requests()
        self.parser = None  # its callbacks name this object

    def eof_received(self) -> None:
        """The client went away: one that still reads looks the same, and does so seldom."""
        self.drop_requests()

    def drop_requests(self) -> None:
        """Answer nothing more, and give up the answer in progress."""
        self.pending.clear()
        cancel, self.current, self.cancel = self.cancel, None, None
        if cancel is not None:
            cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived."""
        if self.is_refusing:
            return
        self.head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.refuse_request(HTTPStatus.BAD_REQUEST, f"no HTTP request: {error}")
        if self.is_in_request and self.head_bytes > MAX_HEAD_BYTES:
            self.refuse_request(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request has more than {MAX_HEAD_BYTES:,} bytes of headers",
            )
        if self.is_in_request and not (self.is_refusing or self.is_reading_paused):
            self.start_timer("request", REQUEST_TIMEOUT_S, self.refuse_slow_request)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self.is_writing_paused = True
        self.start_timer("stalled", STALLED_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        self.is_writing_paused = False
        self.stop_timer("stalled")
        self.answer_next()

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
            case b"expect":
                self.request.expects_continue = value.lower() == b"100-continue"
            case b"content-length" if len(value) > len(str(MAX_BODY_BYTES)) or (
                value.isdigit() and int(value) > MAX_BODY_BYTES
            ):
                self.refuse_large_body()

    def finish_head(self) -> None:
        """The head is complete."""
        request = self.request
        request.method = self.parser.get_method().decode("ascii", "replace")
        request.path = request.target.partition(b"?")[0].decode("ascii", "replace")
        if self.parser.should_upgrade():
            self.refuse_request(HTTPStatus.BAD_REQUEST, "this server speaks HTTP/1.1 alone")
        request.is_old = self.parser.get_http_version() == OLD_VERSION
        if request.expects_continue and not self.is_refusing and not self.current:
            self.transport.write(CONTINUE_RESPONSE)

    def add_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self.is_refusing:
            return
        self.head_bytes = 0
        self.request.size += len(body)
        if self.request.size > MAX_BODY_BYTES:
            self.refuse_large_body()
            return
        self.request.pieces.append(body)

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
        if len(self.pending) > MAX_PENDING_REQUESTS and not self.is_reading_paused:
            self.is_reading_paused = True
            self.transport.pause_reading()
            self.stop_timer("request")
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
            self.current = self.pending.popleft()
            cancel = self.handle(self, self.current)
            self.cancel = cancel if self.current is not None else None
        if self.is_reading_paused and len(self.pending) <= MAX_PENDING_REQUESTS:
            self.is_reading_paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def send_response(
        self, status: HTTPStatus, body: bytes, *, is_last: bool = False, more: bytes = b""
    ) -> None:
        """Answer the current request with a whole body. `is_last`: the connection closes. `more`:
        further header fields, each with its line end.
        """
        self.transport.write(self.build_head(status, JSON_TYPE, more, len(body), is_last) + body)
        self.finish_answer(is_last)

    def send_error(self, error: ApiError, *, is_last: bool = False, more: bytes = b"") -> None:
        """Answer the current request with an error."""
        self.send_response(error.status, write_error_document(error), is_last=is_last, more=more)

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
        if is_last or request is None or not request.keeps_alive:
            self.start_timer("stalled", STALLED_TIMEOUT_S, self.transport.abort)
            self.transport.close()
        elif self.pending:
            self.loop.call_soon(self.answer_next)

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

    def refuse_large_body(self) -> None:
        """Refuse a body that is too large."""
        self.refuse_request(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {MAX_BODY_BYTES:,} bytes"
        )

    def refuse_request(self, status: HTTPStatus, message: str) -> None:
        """Answer what is no request, read on for a moment, and close; an answer in progress is
        given up.
        """
        if self.is_refusing or self.transport.is_closing():
            return
        self.is_refusing = True
        self.stop_timers()
        if self.is_reading_paused:
            self.transport.resume_reading()
        if self.current is None:
            body = write_error_document(ApiError(status, "invalid_request", message))
            self.transport.write(self.build_head(status, JSON_TYPE, b"", len(body), True) + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.drop_requests()
        self.start_timer("linger", LINGER_S, self.transport.abort)

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
