"""Logs of published training rounds in all dialects (`:::MLL`, `:::MLLOG`, an older text format),
as one type of record.

    :::MLL 1560881700.827 run_start: {"value": null, "metadata": {...}}                    v0.6
    :::MLLOG {"time_ms": 1594210618449, "key": "run_start", "value": null, ...}            v0.7;
    some have time_s
    MLPerf: resnet [06/13/19 00:30:57], eval_accuracy: {"value": 75.98000%, "epoch": 79}   before
    v0.6

Most lines of such a file are not records, and a record need not start its line. Sources:
mlcommons/logging,
mlp_parser/ruleset_060.py and ruleset_070.py; mlcommons/training, compliance/mlperf_compliance for
the text form.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec

from compliance.logs.line_numbers import Lines
from compliance.logs.mllog import legacy_text
from compliance.logs.mllog.mllog_lines import blocks, split
from compliance.logs.mllog.record_json import Place, names_in, python_literal, table_of
from compliance.logs.source_file import Kind, SourceFile, shown
from compliance.verdict import Severity
from suite.files.untrusted_files import nested_too_deep

MARK: Final = b":::MLL"
"""Common start of both record dialects."""
MARKED: Final = re.compile(MARK + rb"[^\n]*")
"""The rest of a line from its first mark on."""
USUALLY: Final = re.compile(rb"M(?<=:::M)LL(?:OG (\{.*)|.*)")
"""The text after the colons, and its JSON if it is a v0.7 record: a rare letter is found faster
than a colon.
"""
LETTER: Final = b"M"
STEPS: Final = 1_000
"""Search hits in a block ..."""
CROWD: Final = 16
"""... and records, after which the regular expression takes over."""
BRACE: Final = {b"}"}
NS_PER_MS: Final = 1_000_000
LATEST_MS: Final = 4_102_444_800_000
"""The year 2100: a later clock was never set."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
LENIENCY: Final = {
    Kind.ENCODING: Severity.INFO,
    Kind.CUT: Severity.INFO,
    Kind.FOREIGN: Severity.INFO,
}
"""Flaws that accepted logs have: bytes that are not UTF-8, an unterminated last line, and other
programs' lines.
"""


class Dialect(StrEnum):
    """The form of a log's records."""

    MLL = ":::MLL"
    MLLOG = ":::MLLOG"
    SECONDS = ":::MLLOG with time_s"
    TEXT = "MLPerf:"


class Entry(msgspec.Struct, frozen=True, gc=False):
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
    lines: Lines

    @property
    def line(self) -> int:
        """The record's line, from 1; counted on demand."""
        return self.lines.of(self.order)


class Usual(msgspec.Struct, frozen=True, gc=False):
    """A v0.7 record in the form that nearly all logs use."""

    key: Annotated[str, msgspec.Meta(min_length=1)]
    time_ms: Annotated[int, msgspec.Meta(ge=0, lt=LATEST_MS)]
    value: Any
    metadata: dict[str, Any]
    event_type: Any = None
    namespace: Any = None


USUAL: Final = msgspec.json.Decoder(Usual)


def read(source: SourceFile) -> Iterator[Entry]:
    """Yield a log's records in order; flaws are added to `source`, and an unreadable file ends the
    stream.
    """
    return chain.from_iterable(batches(source))


def batches(source: SourceFile) -> Iterator[Iterable[Entry]]:
    """Yield the records of each block."""
    source.leniency = LENIENCY
    lines = Lines(source.path, MARKED)
    for offset, block in blocks(source, lines):
        if texts := usual_texts(block):
            lines.blocks.append(offset)
            yield together(texts, offset, lines) or one_by_one(source, block, offset, lines)
    if not lines.blocks and not source.has(Kind.MISSING, Kind.UNREADABLE):
        yield (Entry(*told, Dialect.TEXT, None, lines) for told in legacy_text.read(source))


def usual_texts(block: bytes) -> list[bytes]:
    """Return the matches of USUALLY in a block.

    Most of a large log is other programs' text, which a search for one letter skips at once; where
    that letter occurs more often in
    other words than in records, the regular expression is faster, and has no slow worst case.
    """
    found: list[bytes] = []
    at, steps = block.find(LETTER), 0
    while at >= 0:
        if steps == STEPS or len(found) == CROWD:
            return found + USUALLY.findall(block, at)
        steps += 1
        match = USUALLY.match(block, at)
        if match:
            found.append(match[1] or b"")
        at = block.find(LETTER, match.end() if match else at + 1)
    return found


def together(texts: Sequence[bytes], order: int, lines: Lines) -> list[Entry]:
    """Decode a block's records at once if each is a v0.7 record in the usual form, alone on its
    line; return none otherwise.

    No record can hide: an object cannot continue after a line that ends in a brace if the next line
    starts with one, a second
    object on a line makes one too many, and a repeated name makes one name too many: nothing has
    more names than colons.
    """
    text = b"\n".join(texts)
    if (
        b"" in texts
        or MARK in text
        or not (
            {text[-1:] for text in texts} == BRACE
            or {text.rstrip()[-1:] for text in texts} == BRACE
        )
    ):
        return []
    if any(map(nested_too_deep, texts)):
        return []
    try:
        rows = USUAL.decode_lines(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if len(rows) != len(texts) or (
        text.count(b":") != (names := names_of(rows)) and names_in(text) != names
    ):
        return []
    dialect = Dialect.MLLOG
    return [
        Entry(
            place,
            row.time_ms * NS_PER_MS,
            row.key,
            row.value,
            row.metadata,
            dialect,
            row.event_type,
            lines,
        )
        for place, row in enumerate(rows, order)
    ]


def one_by_one(source: SourceFile, block: bytes, offset: int, lines: Lines) -> Iterator[Entry]:
    """Decode each record separately."""
    for order, match in enumerate(USUALLY.finditer(block), offset):
        yield from together([match[1] or b""], order, lines) or entries(
            source, Place(order, lines), b":::" + match.group()
        )


def names_of(rows: Sequence[Usual]) -> int:
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


def entries(source: SourceFile, place: Place, text: bytes) -> Iterator[Entry]:
    """Decode the record of a line from its mark on, or several if they are concatenated."""
    parts = [text]
    if text.find(MARK, len(MARK)) >= 0:
        parts = split(text, MARK)
        source.add(
            Kind.GLUED,
            f"{len(parts)} records on a line, or a record within a record",
            "one record per line",
            place,
        )
    for part in parts:
        found = entry(source, place, part)
        if found is not None:
            yield found


def entry(source: SourceFile, place: Place, text: bytes) -> Entry | None:
    """Decode one record from its mark on; None with a flaw if it is invalid."""
    if text.startswith(b":::MLLOG "):
        return new_entry(source, place, text[9:])
    if text.startswith(b":::MLL "):
        return old_entry(source, place, text[7:])
    source.add(Kind.RECORD, shown(text), "':::MLL ' or ':::MLLOG ', then a record", place)
    return None


def new_entry(source: SourceFile, place: Place, text: bytes) -> Entry | None:
    """Decode the text after `:::MLLOG `."""
    table = table_of(source, place, text)
    if table is None:
        return None
    key = table.get("key")
    time = milliseconds(table)
    if type(key) is not str or not key:
        source.add(Kind.SHAPE, f"key {key!r}: {shown(text)}", "the event's name", place)
        return None
    if time is None:
        source.add(
            Kind.SHAPE,
            f"{key} at time {table.get('time_ms', table.get('time_s'))!r}",
            "time_ms: milliseconds since 1970, or time_s",
            place,
        )
        return None
    return finished(
        source,
        place,
        round(time * 1000) * 1000,
        key,
        table,
        Dialect.MLLOG if "time_ms" in table else Dialect.SECONDS,
    )


def milliseconds(table: Mapping[str, Any]) -> float | None:
    """Return a record's time from `time_ms` or `time_s`; None if it is not a valid clock time."""
    scale, time = (1, table["time_ms"]) if "time_ms" in table else (1000, table.get("time_s"))
    if not isinstance(time, int | float) or isinstance(time, bool):
        return None
    return time * scale if 0 <= time * scale < LATEST_MS else None


def old_entry(source: SourceFile, place: Place, text: bytes) -> Entry | None:
    """Decode the text after `:::MLL `: seconds, key, colon, JSON."""
    head, _, rest = text.partition(b": ")
    stamp, _, name = head.partition(b" ")
    try:
        seconds, key = float(stamp), name.decode("ascii")
    except ValueError:
        seconds, key = -1.0, ""
    if not key or not key.isidentifier() or not 0 <= seconds * 1000 < LATEST_MS:
        source.add(
            Kind.RECORD,
            shown(text),
            "seconds since 1970, the event's name, a colon and JSON",
            place,
        )
        return None
    table = table_of(source, place, rest)
    return (
        None
        if table is None
        else finished(source, place, round(seconds * 1_000_000) * 1000, key, table, Dialect.MLL)
    )


def finished(
    source: SourceFile,
    place: Place,
    time_ns: int,
    key: str,
    table: dict[str, Any],
    dialect: Dialect,
) -> Entry:
    """Assemble a record; a missing value and invalid metadata are flaws."""
    if "value" not in table:
        source.add(Kind.SHAPE, f"{key} without a value", "a value, null where there is none", place)
    metadata = table.get("metadata")
    if type(metadata) is str and (told := python_literal(metadata)) is not None:
        source.add(
            Kind.FOREIGN,
            f"{key} with metadata as Python writes it",
            "metadata: a JSON object",
            place,
        )
        metadata = told
    if type(metadata) is not dict:
        source.add(Kind.SHAPE, f"{key} with metadata {metadata!r}", "metadata: an object", place)
        metadata = NOTHING
    return Entry(
        place.order,
        time_ns,
        key,
        table.get("value"),
        metadata,
        dialect,
        table.get("event_type"),
        place.lines,
    )
