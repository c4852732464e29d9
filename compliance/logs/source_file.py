"""Read a file for the judge: parse errors in its bytes, with line numbers, and strict JSON based on
msgspec.

msgspec decodes fast and checks types, but accepts repeated keys and cannot distinguish NaN from
garbage: a slow second pass checks for both on suspicious lines.
"""

import codecs
import errno
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, Protocol, TypeAlias, TypeVar

import msgspec

from compliance.verdict import About, Severity
from suite.files.untrusted_files import (
    MAX_DOCUMENT_BYTES,
    MAX_NESTING_DEPTH,
    NESTED_TOO_DEEP,
    is_nested_too_deep,
    open_regular_file,
    read_in_pieces,
)

ANY_JSON_DECODER: Final = msgspec.json.Decoder()

T = TypeVar("T")

MAX_PARSE_ERRORS: Final = 100
"""Parse errors of a kind that are kept."""
EXCERPT_CHARACTERS: Final = 120
"""Characters of a bad line shown in a finding."""
JSON_STRING_PATTERN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
"""A string; digits in it are a hash, not a number."""
HUGE_INTEGER_PATTERN: Final = re.compile(rb"(?<=[:\[,\s])-?\d{25,}")
"""Integers larger than any valid count; arithmetic on them may overflow."""
DIGITS_TO_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
HUGE_INTEGER_ZEROS: Final = b"0" * 25
"""Such an integer with equal digits; it is found in a tenth of the time, and few lines have one."""
UTF16_BYTE_ORDER_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Byte order marks of UTF-16 text."""
UTF16_FOUND: Final = "UTF-16 text"
UTF16_ADVICE: Final = "save it as UTF-8."
JSON_KEY_PATTERN: Final = re.compile(rb'"([^"\\]*+)"\s*+:')
"""A key, in text without backslashes."""


class ParseErrorKind(StrEnum):
    """Defects that a file can have before its content is interpreted."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    ENCODING = "encoding"
    RECORD = "record"
    SHAPE = "shape"
    NUMBER = "number"
    DUPLICATE = "duplicate"
    GLUED = "glued"
    CUT = "cut"
    FOREIGN = "foreign"


class LinePosition(Protocol):
    """Something with a line number, which may have to be computed."""

    @property
    def line(self) -> int:
        """Return the line, counted from 1."""
        ...


LineOrPosition: TypeAlias = int | LinePosition | None


@dataclass(frozen=True, slots=True)
class ParseError:
    """One parse error in a file."""

    kind: ParseErrorKind
    found: str
    required: str
    line: int | None = None
    about: About | None = None
    """What of the result the defect bears on, if the parser knows more than its kind says."""
    advice: str | None = None
    """What to do, if the parser knows the cause."""


@dataclass(slots=True)
class SourceFile:
    """A file that was opened, and its parse errors."""

    document_name: ClassVar[str] = "any file"

    path: Path
    parse_errors: list[ParseError] = field(default_factory=list)
    lines: int = 0
    """Lines read so far, if the parser counts them."""
    tail: bytes = b""
    """The last bytes of a log that has been read ..."""
    size: int = 0
    """... and its size."""
    unread_keys: set[str] = field(default_factory=set)
    """Events on lines that could not be read: the log may have stated them."""
    leniency: Mapping[ParseErrorKind, Severity] = field(default_factory=dict)
    """Severity of parse errors that count less than an error in this kind of file: published logs
    may contain what podium's own may not.
    """
    about: About | None = None
    """What of the result defects of the file's content bear on; None if only its form."""
    counts: Counter[ParseErrorKind] = field(default_factory=Counter)
    """Number of parse errors of each kind, including those that were dropped."""
    repetitions: Counter[tuple[ParseErrorKind, str, About | None]] = field(default_factory=Counter)
    """Number of parse errors with the same text, likewise."""

    def add_parse_error(
        self,
        kind: ParseErrorKind,
        found: str,
        required: str,
        line: LineOrPosition = None,
        about: About | None = None,
        advice: str | None = None,
    ) -> None:
        """Record one parse error; beyond a hundred of a kind the rest is dropped, so that garbage
        takes no memory and no line lookups. One whose cause is known is kept if it is the first
        that bears on something.
        """
        self.counts[kind] += 1
        same = (kind, found, about)
        kept = self.counts[kind] <= MAX_PARSE_ERRORS or (
            advice is not None and same not in self.repetitions
        )
        if kept or same in self.repetitions:
            self.repetitions[same] += 1
        if kept:
            self.parse_errors.append(
                ParseError(
                    kind,
                    found or "nothing",
                    required,
                    line if line is None or isinstance(line, int) else line.line,
                    about,
                    advice,
                )
            )

    def count_repetitions(self, parse_error: ParseError) -> int:
        """Return how many parse errors have the kind and text of one."""
        return sum(
            count
            for (kind, found, _), count in self.repetitions.items()
            if (kind, found) == (parse_error.kind, parse_error.found)
        )

    def add_read_error(self, error: Exception) -> None:
        """Record why the file cannot be read."""
        missing = isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        else:
            reason = str(error)
        self.add_parse_error(
            ParseErrorKind.MISSING if missing else ParseErrorKind.UNREADABLE,
            "no such file" if missing else reason,
            f"a readable file {self.path.name}",
        )

    @property
    def is_utf16(self) -> bool:
        """Return whether the file is UTF-16, which explains all of its other defects."""
        return any(each.found.startswith(UTF16_FOUND) for each in self.parse_errors)

    def has_parse_error(self, *kinds: ParseErrorKind) -> bool:
        """Return whether the file has a parse error of one of these kinds."""
        return any(parse_error.kind in kinds for parse_error in self.parse_errors)


def read_json_document(
    source: SourceFile, decoder: msgspec.json.Decoder[T], known: frozenset[str] | None = None
) -> T | None:
    """Read a whole JSON document; None with a parse error if that fails, the value with a parse
    error if it has an unknown field.
    """
    text = read_document_bytes(source)
    if text is None:
        return None
    value = decode_strict_json(source, decoder, text, None)
    if known and value is not None:
        for name in sorted(
            msgspec.json.decode(text.decode("utf-8", "replace"), type=dict[str, msgspec.Raw]).keys()
            - known
        ):
            source.add_parse_error(
                ParseErrorKind.SHAPE,
                f"a field '{format_excerpt(name.encode())}'",
                "only fields of the schema",
            )
    return value


def read_document_bytes(source: SourceFile, limit: int = MAX_DOCUMENT_BYTES) -> bytes | None:
    """Read a whole document as UTF-8; None with a parse error if that fails. A byte order mark, and
    UTF-16, which is translated, are parse errors.
    """
    try:
        with open_regular_file(source.path) as stream:
            text = read_in_pieces(stream, limit + 1)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return None
    if len(text) > limit:
        source.add_parse_error(
            ParseErrorKind.UNREADABLE, f"more than {limit} bytes", "a smaller document"
        )
        return None
    if is_utf16_text(text):
        big = text.startswith(codecs.BOM_UTF16_BE) or not text[0]
        name = "big" if big else "little"
        source.add_parse_error(
            ParseErrorKind.ENCODING,
            f"UTF-16 text ({name}-endian)",
            "UTF-8 text without NUL bytes",
            advice=UTF16_ADVICE,
        )
        text = text.removeprefix(codecs.BOM_UTF16_BE if big else codecs.BOM_UTF16_LE)
        return text.decode(f"utf-16-{name[0]}e", "replace").encode()
    if text.startswith(codecs.BOM_UTF8):
        source.add_parse_error(
            ParseErrorKind.ENCODING,
            "a byte order mark at the beginning",
            "UTF-8 text without one",
            advice="save it as UTF-8 without a byte order mark.",
        )
    return text.removeprefix(codecs.BOM_UTF8)


def read_source_text(source: SourceFile, limit: int = MAX_DOCUMENT_BYTES) -> str:
    """Read a whole text file, empty with a parse error if that fails; invalid UTF-8 becomes
    replacement characters.
    """
    try:
        with open_regular_file(source.path) as stream:
            text = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return ""
    if len(text) > limit:
        source.add_parse_error(
            ParseErrorKind.UNREADABLE, f"more than {limit} bytes", f"at most {limit} bytes"
        )
        return ""
    check_text_encoding(source, text, lambda: 1)
    return text.decode("utf-8", "replace")


def decode_strict_json(
    source: SourceFile,
    decoder: msgspec.json.Decoder[T],
    text: bytes,
    line: int | None,
    limit: int = MAX_DOCUMENT_BYTES,
) -> T | None:
    """Decode strict JSON of one type; None with a parse error if that fails, the value with a parse
    error if a key repeats.
    """
    if len(text) > limit:
        source.add_parse_error(
            ParseErrorKind.UNREADABLE,
            f"a record of {len(text)} bytes",
            f"at most {limit} bytes",
            line,
        )
        return None
    if (
        HUGE_INTEGER_ZEROS in text.translate(DIGITS_TO_ZEROS)
        and HUGE_INTEGER_PATTERN.search(text)
        and HUGE_INTEGER_PATTERN.search(JSON_STRING_PATTERN.sub(b'""', text))
    ):
        source.add_parse_error(
            ParseErrorKind.NUMBER,
            f"a number of 25 digits or more: {format_excerpt(text)}",
            "shorter numbers",
            line,
        )
        return None
    if report_excess_nesting(source, text, line):
        return None
    try:
        value = decoder.decode(text)
    except msgspec.ValidationError as error:
        report_json_defects(source, text, line)
        source.add_parse_error(
            ParseErrorKind.SHAPE, str(error), "the shape required by the schema", line
        )
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not report_json_defects(source, text, line):
            source.add_parse_error(
                ParseErrorKind.RECORD, f"{error}: {format_excerpt(text)}", "well-formed JSON", line
            )
        return None
    if can_have_repeated_key(text):
        report_json_defects(source, text, line)
    return value


def report_excess_nesting(source: SourceFile, text: bytes, line: LineOrPosition) -> bool:
    """Return whether a text is nested deeper than any record; a parse error if so."""
    deep = is_nested_too_deep(text)
    if deep:
        source.add_parse_error(
            ParseErrorKind.RECORD,
            f"{NESTED_TOO_DEEP}: {format_excerpt(text)}",
            f"at most {MAX_NESTING_DEPTH} levels",
            line,
        )
    return deep


def can_have_repeated_key(text: bytes) -> bool:
    """Return whether a key may be repeated, which makes the slow check necessary."""
    if b"\\" in text:
        return True
    names = JSON_KEY_PATTERN.findall(text)
    return len(names) != len(set(names))


def report_json_defects(source: SourceFile, text: bytes, line: LineOrPosition) -> bool:
    """Check for NaN, Infinity and repeated keys with the slow decoder; return whether any was
    found.
    """
    before = source.counts.total()

    def reject_constant(name: str) -> NoReturn:
        source.add_parse_error(
            ParseErrorKind.NUMBER, name, "finite numbers, as JSON requires", line
        )
        raise ValueError(name)

    def build_checked_object(items: list[tuple[str, Any]]) -> dict[str, Any]:
        for name in (
            name for name, count in Counter(name for name, _ in items).items() if count > 1
        ):
            source.add_parse_error(
                ParseErrorKind.DUPLICATE,
                f"the key '{format_excerpt(name.encode('utf-8', 'replace'))}' occurs twice",
                "each key once",
                line,
            )
        return dict(items)

    with suppress(ValueError, RecursionError):  # reported by the caller, or just above
        json.loads(text, parse_constant=reject_constant, object_pairs_hook=build_checked_object)
    return source.counts.total() > before


def check_text_encoding(
    source: SourceFile, text: bytes, line: Callable[[], int], about: About | None = None
) -> None:
    """Record NUL bytes, UTF-16 and invalid UTF-8, at the line of the first; `line` returns the line
    at which the text starts. UTF-16, in which no record can be read, is said once for all blocks of
    a file and bears on `about`.
    """
    if source.is_utf16:
        return
    if b"\0" not in text and (
        (
            source.leniency.get(ParseErrorKind.ENCODING)
            and not text.startswith(UTF16_BYTE_ORDER_MARKS)
        )
        or text.isascii()
    ):
        return
    required = "UTF-8 text without NUL bytes"
    if is_utf16_text(text):
        source.add_parse_error(
            ParseErrorKind.ENCODING, UTF16_FOUND, required, line(), about, UTF16_ADVICE
        )
    elif (at := text.find(b"\0")) >= 0:
        source.add_parse_error(
            ParseErrorKind.ENCODING, "a NUL byte", required, line() + text.count(b"\n", 0, at)
        )
    else:
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            source.add_parse_error(
                ParseErrorKind.ENCODING,
                f"byte 0x{text[error.start]:02x}",
                required,
                line() + text.count(b"\n", 0, error.start),
            )


def is_utf16_text(text: bytes) -> bool:
    """Return whether text has two bytes per character: it begins with a mark that says so, or every
    other byte is NUL, but not all.
    """
    head = text[:64]
    return text.startswith(UTF16_BYTE_ORDER_MARKS) or (
        len(head) > 8
        and head.strip(b"\0\r\n") != b""
        and not (head[1::2].strip(b"\0") and head[::2].strip(b"\0"))
    )


def format_excerpt(text: bytes) -> str:
    """Shorten a bad line for a finding, without terminal control characters."""
    cut = text[:EXCERPT_CHARACTERS].decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in cut) + (
        "..." if len(text) > EXCERPT_CHARACTERS else ""
    )
