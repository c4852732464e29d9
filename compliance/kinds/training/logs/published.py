"""Logs of published training rounds in all dialects (`:::MLL`, `:::MLLOG`, an older text format),
as one type of record.

    :::MLL 1560881700.827 run_start: {"value": null, "metadata": {...}}                    v0.6
    :::MLLOG {"time_ms": 1594210618449, "key": "run_start", "value": null, ...}            v0.7;
    some have time_s
    MLPerf: resnet [06/13/19 00:30:57], eval_accuracy: {"value": 75.98000%, "epoch": 79}   before
    v0.6

Most lines of such a file are not records, and a record need not start its line. Sources:
mlcommons/logging, mlp_parser/ruleset_060.py and ruleset_070.py; mlcommons/training,
compliance/mlperf_compliance for the text form.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec

from compliance.kinds.training.logs import legacy_text
from compliance.logs.line_numbers import LineNumbers
from compliance.logs.mllog.mllog_lines import iterate_file_blocks, split_at_marks
from compliance.logs.mllog.record_json import (
    DECISIVE_NAMES,
    RecordPosition,
    count_text_names,
    decode_record_object,
    parse_python_dict,
)
from compliance.logs.source_file import ParseErrorKind, SourceFile, format_excerpt
from compliance.verdict import About, Severity
from suite.files.untrusted_files import is_nested_too_deep
from suite.units import NS_PER_MS

MLL_MARK: Final = b":::MLL"
"""Common start of both record dialects."""
MARKED_TEXT_PATTERN: Final = re.compile(MLL_MARK + rb"[^\n]*")
"""The rest of a line from its first mark on."""
RECORD_TEXT_PATTERN: Final = re.compile(rb"M(?<=:::M)LL(?:OG (\{.*)|.*)")
"""The text after the colons, and its JSON if it is a v0.7 record: a rare letter is found faster
than a colon.
"""
SEARCH_LETTER: Final = b"M"
MAX_LETTER_HITS: Final = 1_000
"""Search hits in a block ..."""
MAX_LETTER_RECORDS: Final = 16
"""... and records, after which the regular expression takes over."""
CLOSING_BRACE_ENDS: Final = {b"}"}
RECORD_TIME_LIMIT_MS: Final = 4_102_444_800_000
"""The year 2100: a later clock was never set."""
EMPTY_METADATA: Final[Mapping[str, Any]] = MappingProxyType({})
PUBLISHED_LOG_LENIENCY: Final = {
    ParseErrorKind.ENCODING: Severity.INFO,
    ParseErrorKind.CUT: Severity.INFO,
    ParseErrorKind.FOREIGN: Severity.INFO,
}
"""Defects of accepted logs: bytes that are not UTF-8, an unterminated last line, and other
programs' lines.
"""


class Dialect(StrEnum):
    """The form of a log's records."""

    MLL = ":::MLL"
    MLLOG = ":::MLLOG"
    SECONDS = ":::MLLOG with time_s"
    TEXT = "MLPerf:"


class PublishedRecord(msgspec.Struct, frozen=True, gc=False):
    """One record, in any dialect."""

    order: int
    """Ascends through the file; `Lines` converts it to a line number."""
    time_ns: int
    """Nanoseconds since 1970; 0 in records whose writer had no clock."""
    key: str
    value: Any
    metadata: Mapping[str, Any]
    dialect: Dialect
    interval: Any
    """`event_type` as in the log; None if the record has none."""
    lines: LineNumbers

    @property
    def line(self) -> int:
        """The record's line, from 1; counted on demand."""
        return self.lines.find_record_line(self.order)


class UsualRecord(msgspec.Struct, frozen=True, gc=False):
    """A v0.7 record in the form that nearly all logs use."""

    key: Annotated[str, msgspec.Meta(min_length=1)]
    time_ms: Annotated[int, msgspec.Meta(ge=0, lt=RECORD_TIME_LIMIT_MS)]
    value: Any
    metadata: dict[str, Any]
    event_type: Any = None
    namespace: Any = None


LOSING_KINDS: Final = frozenset(
    {ParseErrorKind.RECORD, ParseErrorKind.NUMBER, ParseErrorKind.DUPLICATE, ParseErrorKind.GLUED}
)
"""Defects that may have lost a record, or its value."""
KEY_PATTERN: Final = re.compile(rb'"key"\s*:\s*"([A-Za-z_]\w{0,99})"', re.ASCII)
MAX_UNREAD_KEYS: Final = 1000
USUAL_RECORD_DECODER: Final = msgspec.json.Decoder(UsualRecord)


def read_published_records(source: SourceFile) -> Iterator[PublishedRecord]:
    """Yield a log's records in order; parse errors are added to `source`, and an unreadable file
    ends the stream.
    """
    return chain.from_iterable(iterate_record_batches(source))


def iterate_record_batches(source: SourceFile) -> Iterator[Iterable[PublishedRecord]]:
    """Yield the records of each block."""
    source.leniency = PUBLISHED_LOG_LENIENCY
    lines = LineNumbers(source.path, MARKED_TEXT_PATTERN)
    for offset, block in iterate_file_blocks(source, lines):
        if texts := find_record_texts(block):
            lines.blocks.append(offset)
            yield decode_usual_records(texts, offset, lines) or decode_block_records(
                source, block, offset, lines
            )
    if not lines.blocks and not source.has_parse_error(
        ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE
    ):
        yield (
            PublishedRecord(*fields, Dialect.TEXT, None, lines)
            for fields in legacy_text.read_text_records(source)
        )


def find_record_texts(block: bytes) -> list[bytes]:
    """Return the matches of RECORD_TEXT_PATTERN in a block.

    Most of a large log is other programs' text, which a search for one letter skips at once. If
    that letter occurs more often in other words than in records, the regular expression is faster,
    and has no slow worst case.
    """
    found: list[bytes] = []
    at, steps = block.find(SEARCH_LETTER), 0
    while at >= 0:
        if steps == MAX_LETTER_HITS or len(found) == MAX_LETTER_RECORDS:
            return found + RECORD_TEXT_PATTERN.findall(block, at)
        steps += 1
        match = RECORD_TEXT_PATTERN.match(block, at)
        if match:
            found.append(match[1] or b"")
        at = block.find(SEARCH_LETTER, match.end() if match else at + 1)
    return found


def decode_usual_records(
    texts: Sequence[bytes], order: int, lines: LineNumbers
) -> list[PublishedRecord]:
    """Decode a block's records at once if each is a v0.7 record in the usual form, alone on its
    line; return none otherwise.

    No record can hide:

    - an object cannot continue after a line that ends in a brace if the next line starts with one,
    - a second object on a line makes one too many,
    - a repeated name makes one name too many, since a text has no more names than colons.
    """
    text = b"\n".join(texts)
    if (
        b"" in texts
        or MLL_MARK in text
        or not (
            {text[-1:] for text in texts} == CLOSING_BRACE_ENDS
            or {text.rstrip()[-1:] for text in texts} == CLOSING_BRACE_ENDS
        )
    ):
        return []
    if any(map(is_nested_too_deep, texts)):
        return []
    try:
        rows = USUAL_RECORD_DECODER.decode_lines(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if len(rows) != len(texts) or (
        text.count(b":") != (names := count_expected_names(rows))
        and count_text_names(text) != names
    ):
        return []
    dialect = Dialect.MLLOG
    return [
        PublishedRecord(
            record_order,
            row.time_ms * NS_PER_MS,
            row.key,
            row.value,
            row.metadata,
            dialect,
            row.event_type,
            lines,
        )
        for record_order, row in enumerate(rows, order)
    ]


def decode_block_records(
    source: SourceFile, block: bytes, offset: int, lines: LineNumbers
) -> Iterator[PublishedRecord]:
    """Decode each record separately."""
    for order, match in enumerate(RECORD_TEXT_PATTERN.finditer(block), offset):
        yield from decode_usual_records([match[1] or b""], order, lines) or decode_glued_records(
            source, RecordPosition(order, lines), b":::" + match.group()
        )


def count_expected_names(rows: Sequence[UsualRecord]) -> int:
    """Count the names that records would have without repeated names, unknown names and deeper
    objects.
    """
    names = (
        6 * len(rows)
        + sum([len(row.metadata) for row in rows])
        + sum([len(row.value) for row in rows if type(row.value) is dict])
    )
    return (
        names
        - [row.event_type for row in rows].count(None)
        - [row.namespace for row in rows].count(None)
    )


def decode_glued_records(
    source: SourceFile, position: RecordPosition, text: bytes
) -> Iterator[PublishedRecord]:
    """Decode the record of a line from its mark on, or several if they are concatenated. Defects of
    a line that names what the result rests on bear on the score.
    """
    parts, earlier = [text], len(source.parse_errors)
    if text.find(MLL_MARK, len(MLL_MARK)) >= 0:
        parts = split_at_marks(text, MLL_MARK)
        source.add_parse_error(
            ParseErrorKind.GLUED,
            f"{len(parts)} records on a line, or a record within a record",
            "one record per line",
            position,
        )
    for part in parts:
        found = decode_marked_record(source, position, part)
        if found is not None:
            yield found
        elif (named := KEY_PATTERN.search(part)) and len(source.unread_keys) < MAX_UNREAD_KEYS:
            source.unread_keys.add(named[1].decode("ascii"))
    if any(name in text for name in DECISIVE_NAMES):
        source.parse_errors[earlier:] = [
            replace(each, about=About.SCORE) if each.kind in LOSING_KINDS else each
            for each in source.parse_errors[earlier:]
        ]


def decode_marked_record(
    source: SourceFile, position: RecordPosition, text: bytes
) -> PublishedRecord | None:
    """Decode one record from its mark on; None with a parse error if it is invalid."""
    if text.startswith(b":::MLLOG "):
        return decode_mllog_record(source, position, text[9:])
    if text.startswith(b":::MLL "):
        return decode_mll_record(source, position, text[7:])
    source.add_parse_error(
        ParseErrorKind.RECORD,
        format_excerpt(text),
        "':::MLL ' or ':::MLLOG ', then a record",
        position,
    )
    return None


def decode_mllog_record(
    source: SourceFile, position: RecordPosition, text: bytes
) -> PublishedRecord | None:
    """Decode the text after `:::MLLOG `."""
    table = decode_record_object(source, position, text)
    if table is None:
        return None
    key = table.get("key")
    time = parse_record_time_ms(table)
    if type(key) is not str or not key:
        source.add_parse_error(
            ParseErrorKind.SHAPE,
            f"key {key!r}: {format_excerpt(text)}",
            "the event's name",
            position,
        )
        return None
    if time is None:
        source.add_parse_error(
            ParseErrorKind.SHAPE,
            f"{key} at time {table.get('time_ms', table.get('time_s'))!r}",
            "time_ms: milliseconds since 1970, or time_s",
            position,
        )
        return None
    return build_published_record(
        source,
        position,
        round(time * 1000) * 1000,
        key,
        table,
        Dialect.MLLOG if "time_ms" in table else Dialect.SECONDS,
    )


def parse_record_time_ms(table: Mapping[str, Any]) -> float | None:
    """Return a record's time from `time_ms` or `time_s`; None if it is not a valid clock time."""
    if "time_ms" in table:
        scale, time = 1, table["time_ms"]
    else:
        scale, time = (1000, table.get("time_s"))
    if not isinstance(time, int | float) or isinstance(time, bool):
        return None
    if 0 <= time * scale < RECORD_TIME_LIMIT_MS:
        return time * scale
    return None


def decode_mll_record(
    source: SourceFile, position: RecordPosition, text: bytes
) -> PublishedRecord | None:
    """Decode the text after `:::MLL `: seconds, key, colon, JSON."""
    head, _, rest = text.partition(b": ")
    stamp, _, name = head.partition(b" ")
    try:
        seconds, key = float(stamp), name.decode("ascii")
    except ValueError:
        seconds, key = -1.0, ""
    if not key or not key.isidentifier() or not 0 <= seconds * 1000 < RECORD_TIME_LIMIT_MS:
        source.add_parse_error(
            ParseErrorKind.RECORD,
            format_excerpt(text),
            "seconds since 1970, the event's name, a colon and JSON",
            position,
        )
        return None
    table = decode_record_object(source, position, rest)
    if table is None:
        return None
    return build_published_record(
        source, position, round(seconds * 1_000_000) * 1000, key, table, Dialect.MLL
    )


def build_published_record(
    source: SourceFile,
    position: RecordPosition,
    time_ns: int,
    key: str,
    table: dict[str, Any],
    dialect: Dialect,
) -> PublishedRecord:
    """Assemble a record; a missing value and invalid metadata are parse errors."""
    if "value" not in table:
        source.add_parse_error(
            ParseErrorKind.SHAPE,
            f"{key} without a value",
            "a value, or null without one",
            position,
        )
    metadata = table.get("metadata")
    if type(metadata) is str and (literal := parse_python_dict(metadata)) is not None:
        source.add_parse_error(
            ParseErrorKind.FOREIGN,
            f"{key} with metadata as Python prints it",
            "metadata: a JSON object",
            position,
        )
        metadata = literal
    if type(metadata) is not dict:
        source.add_parse_error(
            ParseErrorKind.SHAPE,
            f"{key} with metadata {metadata!r}",
            "metadata: an object",
            position,
        )
        metadata = EMPTY_METADATA
    return PublishedRecord(
        position.order,
        time_ns,
        key,
        table.get("value"),
        metadata,
        dialect,
        table.get("event_type"),
        position.lines,
    )
