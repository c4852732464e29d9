"""A history of results, line by line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from compliance.documents.base import FileDocument
from compliance.logs.source_file import ParseErrorKind, SourceFile, decode_strict_json
from suite.files.untrusted_files import open_regular_file, read_in_pieces
from suite.history.book import (
    CONFLICT_ADVICE,
    CUT_ADVICE,
    NumberedLine,
    split_history_lines,
)
from suite.history.records import (
    LINE_DECODER,
    MAX_HISTORY_BYTES,
    MAX_LINE_BYTES,
    is_conflict_marker,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry(NumberedLine):
    """One readable line of a history, as it stands there."""

    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HistoryFile(FileDocument):
    """A history of results in git."""

    document_name: ClassVar[str] = "a history"

    entries: Sequence[HistoryEntry]
    """The readable lines; the others are parse errors of its source."""


def read_history_file(source: SourceFile) -> HistoryFile:
    """Read a history; lines that are none are parse errors of its source."""
    try:
        with open_regular_file(source.path) as stream:
            text = read_in_pieces(stream, MAX_HISTORY_BYTES + 1)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return HistoryFile(source=source, entries=())
    if len(text) > MAX_HISTORY_BYTES:
        source.add_parse_error(
            ParseErrorKind.UNREADABLE,
            f"more than {MAX_HISTORY_BYTES} bytes",
            f"at most {MAX_HISTORY_BYTES} bytes",
        )
        return HistoryFile(source=source, entries=())
    return HistoryFile(source=source, entries=tuple(iterate_entries(source, text)))


def iterate_entries(source: SourceFile, text: bytes) -> Iterator[HistoryEntry]:
    """Yield the readable lines."""
    for number, each in enumerate(split_history_lines(text), 1):
        if not each.strip():
            continue
        if is_conflict_marker(each):
            source.add_parse_error(
                ParseErrorKind.RECORD,
                "a marker of a merge",
                "lines",
                number,
                advice=CONFLICT_ADVICE,
            )
        elif not each.rstrip().endswith(b"}"):
            source.add_parse_error(
                ParseErrorKind.CUT,
                "an incomplete line",
                "complete lines",
                number,
                advice=CUT_ADVICE,
            )
        else:
            line = decode_strict_json(source, LINE_DECODER, each, number, MAX_LINE_BYTES)
            if line is not None:
                yield HistoryEntry(number=number, text=each, line=line)
