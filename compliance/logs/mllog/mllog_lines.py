"""Parse the `:::MLLOG {json}` dialect of training logs and LoadGen's detail log: a byte search for
the token, then msgspec.

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

from compliance.logs.line_numbers import LineNumbers
from compliance.logs.source_file import (
    ParseErrorKind,
    SourceFile,
    check_text_encoding,
    decode_strict_json,
    format_excerpt,
)
from compliance.verdict import About
from suite.files.untrusted_files import open_regular_file

MLLOG_TOKEN: Final = b":::MLLOG"
MLLOG_CHUNK_BYTES: Final = 1 << 17
LOG_TAIL_BYTES: Final = 1 << 13
"""Bytes at a log's end that contain the output of the script around a run; in accepted logs within
1,000.
"""
MAX_MLLOG_LINE_BYTES: Final = 16 << 20
"""Maximum bytes of a line that is decoded."""
MAX_CONCATENATED_RECORDS: Final = 10_000
"""Maximum number of concatenated records in a line that are separated; no whole log in the accepted
rounds has more.
"""

EventType: TypeAlias = Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]


class MllogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One record as it appears in the log (schema mllog-event.json)."""

    key: str
    value: Any
    time_ms: int | float
    event_type: EventType
    metadata: dict[str, Any]
    namespace: str = ""


class MllogRecord(NamedTuple):
    """An event and its position."""

    line: int
    """Counted from 1."""
    offset: int
    """Offset of the line's first byte in the file."""
    event: MllogEvent

    @property
    def key(self) -> str:
        """Return the event's name."""
        return self.event.key

    @property
    def value(self) -> Any:
        """Return the event's value."""
        return self.event.value


class MarkedLine(NamedTuple):
    """A line that contains the token."""

    number: int
    offset: int
    text: bytes
    """Without the newline."""


EVENT_DECODER: Final = msgspec.json.Decoder(MllogEvent)
PLAIN_JSON_DECODER: Final = json.JSONDecoder()


def read_mllog_records(source: SourceFile) -> Iterator[MllogRecord]:
    """Yield a file's records in order; parse errors are added to `source`, and an unreadable file
    ends the stream.
    """
    expected = 1
    for line in iterate_marked_lines(source):
        if line.number > expected:
            source.add_parse_error(
                ParseErrorKind.FOREIGN,
                f"{line.number - expected} line(s) that are not log records",
                "only log records",
                expected,
            )
        expected = line.number + 1
        yield from decode_line_records(source, line)
    if source.lines >= expected:
        source.add_parse_error(
            ParseErrorKind.FOREIGN,
            f"{source.lines - expected + 1} line(s) that are not log records",
            "only log records",
            expected,
        )


def decode_line_records(source: SourceFile, line: MarkedLine) -> Iterator[MllogRecord]:
    """Decode a line's record, or several if they are concatenated. In a published log, names that
    LoadGen printed may have bytes of another encoding.
    """
    before, token, text = line.text.partition(MLLOG_TOKEN)
    if before:
        source.add_parse_error(
            ParseErrorKind.GLUED,
            f"'{format_excerpt(before)}' before the token",
            "one record per line, from its first column",
            line.number,
        )
    if MLLOG_TOKEN in text:
        parts = split_at_marks(token + text, MLLOG_TOKEN)
    else:
        parts = [token + text]
    if len(parts) > 1:
        source.add_parse_error(
            ParseErrorKind.GLUED,
            f"{len(parts)} records on a line",
            "one record per line",
            line.number,
        )
    for part in parts:
        record = part[len(MLLOG_TOKEN) :].strip(b" \t\r")
        if ParseErrorKind.ENCODING in source.leniency and not is_utf8_text(record):
            source.add_parse_error(
                ParseErrorKind.ENCODING,
                f"bytes that are not UTF-8: {format_excerpt(record)}",
                "UTF-8",
                line.number,
            )
            record = record.decode("utf-8", "replace").encode()
        event = decode_strict_json(source, EVENT_DECODER, record, line.number)
        if event is not None:
            yield MllogRecord(line.number, line.offset, event)


def is_utf8_text(text: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def split_at_marks(text: bytes, mark: bytes) -> list[bytes]:
    """Split concatenated records at the mark that starts each; the text starts with a mark.

    A mark inside a record's own JSON is not a boundary; after a broken record every mark is one, so
    that no line is scanned again for each mark in it. Text after the last separated record stays
    with it.
    """
    letters, borders, at, whole = text.decode("latin-1"), [0], 0, True
    while (
        len(borders) < MAX_CONCATENATED_RECORDS and (again := text.find(mark, at + len(mark))) >= 0
    ):
        if whole:
            brace = text.find(b"{", at, again)
        else:
            brace = -1
        end = 0
        if brace >= 0:
            end = find_json_end(letters, brace)
        whole = whole and (brace < 0 or end > 0)
        if end > again:
            at = text.find(mark, end)
        else:
            at = again
        if at < 0:
            break
        borders.append(at)
    return [text[begin:end] for begin, end in pairwise([*borders, len(text)])]


def find_json_end(letters: str, at: int) -> int:
    """Return the end of the JSON value that starts at an index; 0 if there is none."""
    try:
        return PLAIN_JSON_DECODER.raw_decode(letters, at)[1]
    except (ValueError, RecursionError):
        return 0


def iterate_marked_lines(source: SourceFile, token: bytes = MLLOG_TOKEN) -> Iterator[MarkedLine]:
    """Yield the lines with the token; a file that is unreadable, or vanishes, is a parse error."""
    number, block = 1, b""
    for offset, block in iterate_file_blocks(source, LineNumbers(source.path)):
        counted = at = 0
        while (at := block.find(token, at)) >= 0:
            start = block.rfind(b"\n", 0, at) + 1
            stop = block.find(b"\n", at)
            stop = len(block) if stop < 0 else stop
            number += block.count(b"\n", counted, start)
            counted = start
            yield MarkedLine(number, offset + start, block[start:stop])
            at = stop
        number += block.count(b"\n", counted)
    if block:
        source.lines = number - block.endswith(b"\n")
    else:
        source.lines = number - 1


def iterate_file_blocks(source: SourceFile, lines: LineNumbers) -> Iterator[tuple[int, bytes]]:
    """Yield a file as blocks of whole lines with their offsets; a file that is unreadable, or
    vanishes, is a parse error.
    """
    try:
        with open_regular_file(source.path) as stream:
            yield from scan_stream_blocks(source, stream, lines)
    except (OSError, ValueError) as error:
        source.add_read_error(error)


def scan_stream_blocks(
    source: SourceFile, stream: BinaryIO, lines: LineNumbers
) -> Iterator[tuple[int, bytes]]:
    """Read a stream in blocks of whole lines, so that no token is cut."""
    offset, last = 0, b""
    for block in iterate_line_pieces(stream.fileno()):
        if len(block) > MAX_MLLOG_LINE_BYTES:
            source.add_parse_error(
                ParseErrorKind.RECORD,
                f"a line of more than {MAX_MLLOG_LINE_BYTES} bytes",
                "shorter lines",
                lines.find_line_at(offset),
            )
        check_text_encoding(source, block, partial(lines.find_line_at, offset), About.SCORE)
        yield offset, block
        offset += len(block)
        last = block
        if len(block) >= LOG_TAIL_BYTES:
            source.tail = block[-LOG_TAIL_BYTES:]
        else:
            source.tail = (source.tail + block)[-LOG_TAIL_BYTES:]
    source.size = offset
    if not offset:
        source.add_parse_error(ParseErrorKind.CUT, "an empty file", "a log", None)
    elif last[-1:] != b"\n":
        rest = last[last.rfind(b"\n") + 1 :]
        source.add_parse_error(
            ParseErrorKind.CUT,
            f"an incomplete last line: '{format_excerpt(rest)}'",
            "a newline at the end of the file",
            lines.find_line_at(offset - len(rest)),
        )


def iterate_line_pieces(descriptor: int) -> Iterator[bytes]:
    """Read a file in pieces that end at a line end; the last one is the remainder.

    An incomplete line at the end of a piece is read again with the next one, which is cheaper than
    joining the two parts.
    """
    offset, size = 0, MLLOG_CHUNK_BYTES
    while piece := os.pread(descriptor, size, offset):
        if len(piece) < size:
            end = len(piece)
        else:
            end = piece.rfind(b"\n") + 1
        if not end and size <= MAX_MLLOG_LINE_BYTES:
            size *= 2
            continue
        yield piece[: end or size]
        offset += end or size
