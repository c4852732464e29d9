"""One connection to a server: a request at a time, its response read as it arrives (RFC 9112).

It is written by hand, unlike the server, since what it costs is measured with the answers: 0.096 ms
of CPU for a streamed answer, where a library's client takes 0.988 ms
(benchmarks/results/serving-network.md).
"""

import asyncio
import select
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, cast

from harness.serving.network.openai.answer_reader import AnswerReader, BrokenAnswerError
from harness.serving.network.openai.api_names import JSON_TYPE
from harness.serving.network.openai.refusal_text import (
    PLAIN_CODINGS,
    describe_refusal,
    shorten_text,
)
from harness.serving.network.openai.sse import begins_stream

if TYPE_CHECKING:
    from harness.serving.network.openai.server_pool import PooledServer, SentRequest

OK_STATUS: Final = 200
REDIRECT_STATUSES: Final = range(300, 400)
REFUSING_STATUSES: Final = frozenset({400, 422})
"""Of a request with a field that the server does not take."""
INTERIM_STATUSES: Final = frozenset({100, *range(102, 200)})
"""RFC 9110, section 15.2: a client reads on behind them. 101 would be another protocol."""
HTTP_VERSION: Final = "1.1"
MAX_HEAD_BYTES: Final = 1 << 16
"""House rule: of a response's status line and headers; common clients stop there."""
UNREAD_EVENTS: Final = select.POLLIN | select.POLLHUP | select.POLLERR
REUSE_ADVICE: Final = "; if it closes connections behind answers, --set endpoint.reuse=false"
SECOND_ANSWER: Final = b"HTTP/1.1 200"
SECOND_RESPONSE: Final = "sent a second response to one request"
DOCUMENT_MARK: Final = b'"choices"'
"""In every document with an answer."""
MAX_REFUSAL_BYTES: Final = 1 << 12
"""Of the body of a refusal, as far as it is read for its message."""


class ClientConnection(asyncio.Protocol):
    """An open connection, idle or with one request that has been sent.

    All methods run on the pool's loop.
    """

    __slots__ = (
        "answers",
        "coding",
        "content_ns",
        "has_ended",
        "has_read_content",
        "head_bytes",
        "is_closed",
        "is_head_read",
        "is_interim",
        "is_owed",
        "keeps_alive",
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
        self.is_closed = self.is_head_read = self.is_interim = False
        self.is_owed = False
        """A response has not ended; an answer may have."""
        self.has_ended = self.keeps_alive = False
        """A response has ended in what is being read; and its server announced no end."""
        self.answers = 0
        """Whole ones that came over it."""
        self.sent_ns = self.content_ns = 0
        """When the request was sent; when tokens of its answer came last, or its end."""
        self.has_read_content = False
        """What arrived last has brought tokens."""
        self.head_bytes = 0
        """Since the last piece of a body: a head, or the trailers and extensions of chunks."""
        self.refusal: bytearray | None = None
        self.media_type = self.location = self.coding = b""

    def send_request(self, request: "SentRequest", streamed: bool) -> None:
        """Send a request; the connection is idle."""
        assert self.transport is not None
        self.request, self.reader = request, AnswerReader(streamed)
        self.is_owed = True
        self.is_head_read, self.head_bytes, self.refusal = False, 0, None
        self.media_type = self.location = self.coding = b""
        request.sent_ns = self.sent_ns = self.content_ns = monotonic_ns()
        self.transport.write(request.content)

    def close_transport(self) -> None:
        """Close the connection."""
        self.is_closed = True
        self.server.live.discard(self)
        if self.transport is not None:
            self.transport.abort()

    def has_unread_bytes(self) -> bool:
        """Return whether the server has said something or closed an idle connection, and the loop
        has not come to it yet.
        """
        assert self.transport is not None
        watched = select.poll()
        watched.register(self.transport.get_extra_info("socket").fileno(), UNREAD_EVENTS)
        return bool(watched.poll(0))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport; called by the loop."""
        self.transport = cast(asyncio.Transport, transport)
        self.server.live.add(self)

    def data_received(self, data: bytes) -> None:
        """Read what arrived; called by the loop."""
        if self.is_closed:
            return
        if not self.is_owed:
            self.drop_unasked(data)
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
            return
        if self.has_ended:  # now, as the next request's answer cannot have been read with it
            self.has_ended = False
            self.server.take_back_connection(self, self.keeps_alive)

    def drop_unasked(self, data: bytes) -> None:
        """Close an idle connection on which a server says something, as some do that were asked
        nothing for long; a second answer ends the run.
        """
        if data.startswith(SECOND_ANSWER):
            self.server.fail_request(self, SECOND_RESPONSE)
            return
        self.close_transport()
        self.server.forget_connection(self)

    def fail_reading(self, error: Exception) -> None:
        """Report what the parser found, or what was raised in one of its calls."""
        from httptools import HttpParserCallbackError, HttpParserError

        if isinstance(error, HttpParserCallbackError) and isinstance(error.__context__, Exception):
            error = error.__context__
        if isinstance(error, BrokenAnswerError):
            self.server.fail_request(self, str(error), error.joint)
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
            case b"content-encoding":
                self.coding = value.strip().lower()

    def check_head(self) -> None:
        """Check the head of a response; called by the parser."""
        status, version = self.parser.get_status_code(), self.parser.get_http_version()
        self.is_interim = status in INTERIM_STATUSES
        if self.is_interim:
            return
        self.is_head_read = True
        if self.request is None:
            raise BrokenAnswerError(SECOND_RESPONSE)
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
        elif self.get_coding() not in PLAIN_CODINGS:
            raise BrokenAnswerError(
                f"sent a compressed answer ({shorten_text(self.get_coding())}): turn that off at"
                " the proxy"
            )

    def get_coding(self) -> str:
        """Return how the body is compressed."""
        return self.coding.decode("latin-1")

    def read_body(self, body: bytes) -> None:
        """Read a piece of a body; called by the parser."""
        self.head_bytes = 0
        if self.refusal is not None:
            body = self.add_refusal(body)
        request, answer = self.request, self.reader.answer
        if request is None or not body:
            return  # behind the end of a stream
        was_begun = answer.has_begun
        if self.reader.read_piece(body):
            now = self.note_content()
            answer.arrivals_ns.append(now)
            if not self.has_read_content:
                self.has_read_content = True
                answer.content_reads += 1
            if not was_begun:
                self.server.handler.handle_first_token(request, answer, now)
        if answer.complete:
            self.finish_request(request)

    def add_refusal(self, body: bytes) -> bytes:
        """Keep the begin of a body that is no answer; return it as soon as it turns out to be a
        stream with the media type of a document, else b"".
        """
        assert self.refusal is not None
        whole = bytes(self.refusal) + body
        if self.parser.get_status_code() == OK_STATUS and begins_stream(whole):
            self.refusal = None
            return whole
        self.refusal += body[: MAX_REFUSAL_BYTES - len(self.refusal)]
        if len(self.refusal) >= MAX_REFUSAL_BYTES:
            self.raise_refusal()
        return b""

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
        if self.is_interim:
            self.is_interim = False
            self.media_type = self.location = self.coding = b""
            return
        if self.refusal is not None:
            self.raise_refusal()
        if self.request is not None:
            self.reader.finish_reading()
            self.finish_request(self.request)
        self.is_owed, self.has_ended = False, True
        self.keeps_alive = self.parser.should_keep_alive()

    def finish_request(self, request: "SentRequest") -> None:
        """Hand on a whole answer; BrokenAnswerError if it cannot be counted."""
        self.note_content()
        self.server.handler.handle_answer(request, self.reader.answer)
        self.server.answered += 1
        self.answers += 1
        self.request = None

    on_header, on_headers_complete = read_header, check_head
    on_body, on_message_complete = read_body, finish_response
    # under these names the parser calls them

    def raise_refusal(self) -> None:
        """Raise what a response says that is no answer."""
        assert self.refusal is not None
        status = self.parser.get_status_code()
        said = describe_refusal(bytes(self.refusal), self.get_coding())
        if status == OK_STATUS and DOCUMENT_MARK in self.refusal:
            raise BrokenAnswerError(
                "did not stream its answer, but sent a whole document; --set endpoint.stream=false"
                " measures Offline without streams"
            )
        if status == OK_STATUS:
            raise BrokenAnswerError(f"did not stream its answer{said}")
        advice = (
            self.server.pool.style.advise_on_refusal(said) if status in REFUSING_STATUSES else ""
        )
        raise BrokenAnswerError(f"answered {status}{said.rstrip('.')}{advice}")

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
            self.server.fail_request(self, str(error), error.joint)

    def finish_at_end(self) -> None:
        """Finish a response that ends with its connection, as those without a length do;
        BrokenAnswerError if it has no end.
        """
        if self.refusal is not None:
            self.raise_refusal()
        if not self.is_head_read:
            advice = REUSE_ADVICE if self.answers else ""
            raise BrokenAnswerError(f"closed the connection after the request was sent{advice}")
        if self.reader.streamed:
            raise BrokenAnswerError("cut a stream before its end")
        assert self.request is not None
        self.reader.finish_reading()
        self.finish_request(self.request)
        self.server.forget_connection(self)
