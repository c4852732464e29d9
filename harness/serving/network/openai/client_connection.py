"""One connection to a server: a request at a time, its response read as it arrives (RFC 9112)."""

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, cast

from harness.serving.network.openai.answer_reader import (
    AnswerReader,
    BrokenAnswerError,
    describe_refusal,
    shorten_text,
)
from harness.serving.network.openai.api_names import JSON_TYPE

if TYPE_CHECKING:
    from harness.serving.network.openai.server_pool import PooledServer, SentRequest

OK_STATUS: Final = 200
REDIRECT_STATUSES: Final = range(300, 400)
HTTP_VERSION: Final = "1.1"
MAX_HEAD_BYTES: Final = 1 << 16
"""House rule: of a response's status line and headers; common clients stop there."""
MAX_REFUSAL_BYTES: Final = 1 << 12
"""Of the body of a refusal, as far as it is read for its message."""


class ClientConnection(asyncio.Protocol):
    """An open connection, idle or with one request that has been sent.

    All methods run on the pool's loop.
    """

    __slots__ = (
        "content_ns",
        "has_read_content",
        "head_bytes",
        "is_closed",
        "is_head_read",
        "is_owed",
        "location",
        "media_type",
        "parser",
        "reader",
        "refusal",
        "request",
        "sent_ns",
        "server",
        "transport",
    )

    def __init__(self, server: "PooledServer", parser_class: Any) -> None:
        self.server = server
        self.parser: Any = parser_class(self)
        self.transport: asyncio.Transport | None = None
        self.request: SentRequest | None = None
        self.reader = AnswerReader(False)
        self.is_closed = self.is_head_read = False
        self.is_owed = False
        """A response has not ended; an answer may have."""
        self.sent_ns = self.content_ns = 0
        """When the request was sent; when tokens of its answer came last, or its end."""
        self.has_read_content = False
        """What arrived last has brought tokens."""
        self.head_bytes = 0
        """Since the last piece of a body: a head, or the trailers and extensions of chunks."""
        self.refusal: bytearray | None = None
        self.media_type = self.location = b""

    def send_request(self, request: "SentRequest", streamed: bool) -> None:
        """Send a request; the connection is idle."""
        assert self.transport is not None
        self.request, self.reader = request, AnswerReader(streamed)
        self.is_owed = True
        self.is_head_read, self.head_bytes, self.refusal = False, 0, None
        self.media_type = self.location = b""
        request.sent_ns = self.sent_ns = self.content_ns = monotonic_ns()
        self.transport.write(request.content)

    def close_transport(self) -> None:
        """Close the connection."""
        self.is_closed = True
        self.server.live.discard(self)
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport; called by the loop."""
        self.transport = cast(asyncio.Transport, transport)
        self.server.live.add(self)

    def data_received(self, data: bytes) -> None:
        """Read what arrived; called by the loop."""
        if self.is_closed:
            return
        if not self.is_owed:  # as some servers say that nothing was asked of them for long
            self.close_transport()
            self.server.forget_connection(self)
            return
        self.server.bytes_in += len(data)
        self.head_bytes += len(data)
        self.has_read_content = False
        try:
            self.parser.feed_data(data)
            if self.is_owed and self.head_bytes > MAX_HEAD_BYTES:
                raise BrokenAnswerError(f"sent more than {MAX_HEAD_BYTES:,} bytes of headers")
        except Exception as error:
            self.fail_reading(error)

    def fail_reading(self, error: Exception) -> None:
        """Report what the parser found, or what was raised in one of its calls."""
        from httptools import HttpParserCallbackError, HttpParserError

        if isinstance(error, HttpParserCallbackError) and isinstance(error.__context__, Exception):
            error = error.__context__
        if isinstance(error, BrokenAnswerError):
            self.server.fail_request(self, str(error))
        elif isinstance(error, HttpParserError):
            self.server.fail_request(self, "sent what is no HTTP/1.1 response")
        else:
            self.server.pool.fail_run(error)

    def read_header(self, name: bytes, value: bytes) -> None:
        """Keep the headers that matter; called by the parser."""
        match name.lower():
            case b"content-type":
                self.media_type = value.lower()
            case b"location":
                self.location = value

    def check_head(self) -> None:
        """Check the head of a response; called by the parser."""
        self.is_head_read = True
        status, version = self.parser.get_status_code(), self.parser.get_http_version()
        if self.request is None:
            raise BrokenAnswerError("sent a response without a request")
        if version != HTTP_VERSION:
            raise BrokenAnswerError(
                f"speaks HTTP/{version}; HTTP/1.1 is needed, whose connections stay open"
            )
        if status in REDIRECT_STATUSES:
            where = shorten_text(self.location.decode("latin-1")) or "nowhere"
            raise BrokenAnswerError(
                f"redirects with {status} to {where}; name the server itself with --endpoint"
            )
        if status != OK_STATUS or self.reader.streamed and self.media_type.startswith(JSON_TYPE):
            self.refusal = bytearray()

    def read_body(self, body: bytes) -> None:
        """Read a piece of a body; called by the parser."""
        self.head_bytes = 0
        if self.refusal is not None:
            self.refusal += body[: MAX_REFUSAL_BYTES - len(self.refusal)]
            if len(self.refusal) >= MAX_REFUSAL_BYTES:
                self.raise_refusal()
            return
        request, answer = self.request, self.reader.answer
        if request is None:
            return  # behind the end of a stream
        was_begun = answer.has_begun
        if self.reader.read_piece(body):
            now = self.note_content()
            if not self.has_read_content:
                self.has_read_content = True
                answer.content_reads += 1
            if not was_begun:
                self.server.handler.handle_first_token(request, answer, now)
        if answer.complete:
            self.request = None
            self.note_content()
            self.server.handler.handle_answer(request, answer)

    def note_content(self) -> int:
        """Note that tokens came, or an answer's end; return the time."""
        self.content_ns = self.server.content_ns = monotonic_ns()
        return self.content_ns

    def measure_wait_ns(self, now_ns: int, per_answer: bool) -> int:
        """Return how long an owed answer has been waited for: since it was sent, or since tokens
        came last; before its first one, of any answer of its server, where it may wait in a queue.
        """
        if not self.is_owed:
            return 0
        if per_answer:
            return now_ns - self.sent_ns
        queued = self.request is not None and not self.reader.answer.has_begun
        return now_ns - max(self.content_ns, self.server.content_ns * queued)

    def finish_response(self) -> None:
        """Note a response's end; called by the parser."""
        if self.refusal is not None:
            self.raise_refusal()
        if self.request is not None:
            self.finish_request(self.request)
        self.is_owed = False
        self.server.take_back_connection(self, self.parser.should_keep_alive())

    def finish_request(self, request: "SentRequest") -> None:
        """Hand on the answer whose response has ended; BrokenAnswerError if it is not complete."""
        self.reader.finish_reading()
        self.request = None
        self.note_content()
        self.server.handler.handle_answer(request, self.reader.answer)

    on_header, on_headers_complete = read_header, check_head
    on_body, on_message_complete = read_body, finish_response
    # under these names the parser calls them

    def raise_refusal(self) -> None:
        """Raise what a response says that is no answer."""
        assert self.refusal is not None
        status, said = self.parser.get_status_code(), describe_refusal(bytes(self.refusal))
        if status == OK_STATUS:
            raise BrokenAnswerError(f"did not stream its answer{said}")
        raise BrokenAnswerError(f"answered {status}{said}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone; called by the loop."""
        if self.is_closed:
            return
        self.is_closed = True
        self.server.live.discard(self)
        if self.request is None:
            self.server.forget_connection(self)
            return
        try:
            self.finish_at_end()
        except BrokenAnswerError as error:
            self.server.fail_request(self, str(error))

    def finish_at_end(self) -> None:
        """Finish a response that ends with its connection, as those without a length do;
        BrokenAnswerError if it has no end.
        """
        if self.refusal is not None:
            self.raise_refusal()
        if not self.is_head_read:
            raise BrokenAnswerError("closed the connection after the request was sent")
        if self.reader.streamed:
            raise BrokenAnswerError("cut a stream before its end")
        assert self.request is not None
        self.finish_request(self.request)
        self.server.forget_connection(self)
