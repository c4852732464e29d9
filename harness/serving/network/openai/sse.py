"""Server-sent events, read as they arrive in pieces of any size.

WHATWG HTML, section 9.2.6, "Interpreting an event stream": lines end with LF, CRLF or CR; the
`data` lines of an event are joined; a line that begins with a colon is a comment.
"""

from typing import Final

MAX_EVENT_BYTES: Final = 1 << 20
"""House rule: of one event; one of a server that streams tokens has some hundred bytes."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
PLAIN_PREFIX: Final = b"data: "
PLAIN_END: Final = b"\n\n"
STREAM_BEGINS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
"""What the first line of a stream begins with."""


def begins_stream(body: bytes) -> bool:
    """Return whether the begin of a body is that of a stream of events: no JSON begins so."""
    return body.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n").startswith(STREAM_BEGINS)


class EventTooLongError(Exception):
    """An event is longer than any server's."""


class EventParser:
    """Turns pieces of a stream into the data of its events."""

    __slots__ = ("_data", "_data_bytes", "_rest", "_skips_line_feed", "_started")

    def __init__(self) -> None:
        self._rest = b""
        """The begin of a line whose end has not come."""
        self._data: list[bytes] = []
        """Data lines of the event that has not ended."""
        self._data_bytes = 0
        self._skips_line_feed = False
        """The last piece ended with CR: an LF that follows belongs to it."""
        self._started = False

    def feed_piece(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that end in a piece; EventTooLongError beyond the limit."""
        if (
            self._started
            and not self._rest
            and not self._data
            and piece.startswith(PLAIN_PREFIX)
            and piece.endswith(PLAIN_END)
            and piece.count(b"\n") == 2
            and b"\r" not in piece
            and len(piece) <= MAX_EVENT_BYTES
        ):  # as nearly every piece of nearly every server: one whole event of one line
            return [piece[len(PLAIN_PREFIX) : -len(PLAIN_END)]]
        return self._feed_lines(piece)

    def _feed_lines(self, piece: bytes) -> list[bytes]:
        """Do so for a piece of any form."""
        if self._skips_line_feed and piece:
            piece = piece.removeprefix(b"\n")
            self._skips_line_feed = False
        if b"\r" in piece:
            self._skips_line_feed = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if not self._started and (lines or len(self._rest) >= len(BYTE_ORDER_MARK)):
            self._started = True
            lines, self._rest = strip_byte_order_mark(lines, self._rest)
        events = list[bytes]()
        for line in lines:
            if line:
                self._add_line(line)
            elif self._data:
                events.append(b"\n".join(self._data))
                self._data, self._data_bytes = [], 0
        if len(self._rest) + self._data_bytes > MAX_EVENT_BYTES:
            raise EventTooLongError
        return events

    def _add_line(self, line: bytes) -> None:
        """Add a line to the event; only its data count."""
        field, _, value = line.partition(b":")
        if field != b"data":
            return
        self._data.append(value.removeprefix(b" "))
        self._data_bytes += len(value) + 1
        if self._data_bytes > MAX_EVENT_BYTES:
            raise EventTooLongError


def strip_byte_order_mark(lines: list[bytes], rest: bytes) -> tuple[list[bytes], bytes]:
    """Return a stream's first lines and the begin of the next one, without a byte order mark."""
    if lines:
        return [lines[0].removeprefix(BYTE_ORDER_MARK), *lines[1:]], rest
    return lines, rest.removeprefix(BYTE_ORDER_MARK)
