"""The `:::MLLOG {json}` dialect of training logs and LoadGen's detail log: a byte search for the
token, then msgspec.

Line numbers and byte offsets are those of the file on disk. Lines without the token are counted,
not decoded.
"""

import json
import os
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias

import msgspec

from compliance.logs.line_numbers import Lines
from compliance.logs.source_file import Kind, SourceFile, decode, look_at_encoding, shown
from suite.files.untrusted_files import opened

TOKEN: Final = b":::MLLOG"
CHUNK: Final = 1 << 17
TAIL: Final = 1 << 13
"""Bytes at a log's end that contain the output of the script around a run; in accepted logs within
1,000.
"""
LINE_LIMIT: Final = 16 << 20
"""Maximum bytes of a line that is decoded."""
PARTS: Final = 10_000
"""Concatenated records of a line that are separated: more than a whole log has in the accepted
rounds.
"""

EventType: TypeAlias = Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One record as it appears in the log (schema mllog-event.json)."""

    key: str
    value: Any
    time_ms: int | float
    event_type: EventType
    metadata: dict[str, Any]
    namespace: str = ""


class Record(NamedTuple):
    """An event and its position."""

    line: int
    """Counted from 1."""
    offset: int
    """Offset of the line's first byte in the file."""
    event: Event

    @property
    def key(self) -> str:
        """The event's name."""
        return self.event.key

    @property
    def value(self) -> Any:
        """The event's value."""
        return self.event.value


class Line(NamedTuple):
    """A line that contains the token."""

    number: int
    offset: int
    text: bytes
    """Without the newline."""


DECODER: Final = msgspec.json.Decoder(Event)
PLAIN: Final = json.JSONDecoder()


def read(source: SourceFile) -> Iterator[Record]:
    """Yield a file's records in order; flaws are added to `source`, and an unreadable file ends the
    stream.
    """
    expected = 1
    for line in marked_lines(source):
        if line.number > expected:
            source.add(
                Kind.FOREIGN,
                f"{line.number - expected} line(s) that are not log records",
                "only log records",
                expected,
            )
        expected = line.number + 1
        yield from records(source, line)
    if source.lines >= expected:
        source.add(
            Kind.FOREIGN,
            f"{source.lines - expected + 1} line(s) that are not log records",
            "only log records",
            expected,
        )


def records(source: SourceFile, line: Line) -> Iterator[Record]:
    """Decode a line's record, or several if they are concatenated."""
    before, token, text = line.text.partition(TOKEN)
    if before:
        source.add(
            Kind.GLUED,
            f"'{shown(before)}' before the token",
            "one record per line, from its first column",
            line.number,
        )
    parts = split(token + text, TOKEN) if TOKEN in text else [token + text]
    if len(parts) > 1:
        source.add(
            Kind.GLUED, f"{len(parts)} records on a line", "one record per line", line.number
        )
    for part in parts:
        event = decode(source, DECODER, part[len(TOKEN) :].strip(b" \t\r"), line.number)
        if event is not None:
            yield Record(line.number, line.offset, event)


def split(text: bytes, mark: bytes) -> list[bytes]:
    """Split concatenated records at the mark that starts each; the text starts with a mark.

    A mark inside a record's own JSON is not a boundary; after a broken record every mark is one, so
    that no line is scanned
    again for each mark in it. Text after the last separated record stays with it.
    """
    letters, borders, at, whole = text.decode("latin-1"), [0], 0, True
    while len(borders) < PARTS and (again := text.find(mark, at + len(mark))) >= 0:
        brace = text.find(b"{", at, again) if whole else -1
        end = ended(letters, brace) if brace >= 0 else 0
        whole = whole and (brace < 0 or end > 0)
        at = text.find(mark, end) if end > again else again
        if at < 0:
            break
        borders.append(at)
    return [text[begin:end] for begin, end in pairwise([*borders, len(text)])]


def ended(letters: str, at: int) -> int:
    """Return the end of the JSON value that starts at an index; 0 if there is none."""
    try:
        return PLAIN.raw_decode(letters, at)[1]
    except (ValueError, RecursionError):
        return 0


def marked_lines(source: SourceFile, token: bytes = TOKEN) -> Iterator[Line]:
    """Yield the lines with the token; a file that is unreadable, or vanishes, is a flaw."""
    number, block = 1, b""
    for offset, block in blocks(source, Lines(source.path)):
        counted = at = 0
        while (at := block.find(token, at)) >= 0:
            start = block.rfind(b"\n", 0, at) + 1
            stop = block.find(b"\n", at)
            stop = len(block) if stop < 0 else stop
            number += block.count(b"\n", counted, start)
            counted = start
            yield Line(number, offset + start, block[start:stop])
            at = stop
        number += block.count(b"\n", counted)
    source.lines = number - block.endswith(b"\n") if block else number - 1


def blocks(source: SourceFile, lines: Lines) -> Iterator[tuple[int, bytes]]:
    """Yield a file as blocks of whole lines with their offsets; a file that is unreadable, or
    vanishes, is a flaw.
    """
    try:
        with opened(source.path) as stream:
            yield from scan(source, stream, lines)
    except (OSError, ValueError) as error:
        source.unreadable(error)


def scan(source: SourceFile, stream: BinaryIO, lines: Lines) -> Iterator[tuple[int, bytes]]:
    """Read a stream in blocks of whole lines, so that no token is cut."""
    offset, last = 0, b""
    for block in whole_lines(stream.fileno()):
        if len(block) > LINE_LIMIT:
            source.add(
                Kind.RECORD,
                f"a line of more than {LINE_LIMIT} bytes",
                "lines that people can read",
                lines.at(offset),
            )
        look_at_encoding(source, block, partial(lines.at, offset))
        yield offset, block
        offset += len(block)
        last = block
        source.tail = block[-TAIL:] if len(block) >= TAIL else (source.tail + block)[-TAIL:]
    source.size = offset
    if not offset:
        source.add(Kind.CUT, "an empty file", "a log", None)
    elif last[-1:] != b"\n":
        rest = last[last.rfind(b"\n") + 1 :]
        source.add(
            Kind.CUT,
            f"the last line is incomplete: '{shown(rest)}'",
            "a newline at the end of the file",
            lines.at(offset - len(rest)),
        )


def whole_lines(descriptor: int) -> Iterator[bytes]:
    """Read a file in pieces that end at a line end; the last one is the remainder.

    An incomplete line at the end of a piece is read again with the next one, which is cheaper than
    joining the two parts.
    """
    offset, size = 0, CHUNK
    while piece := os.pread(descriptor, size, offset):
        end = len(piece) if len(piece) < size else piece.rfind(b"\n") + 1
        if not end and size <= LINE_LIMIT:
            size *= 2
            continue
        yield piece[: end or size]
        offset += end or size
