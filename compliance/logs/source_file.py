"""A file read by the judge: flaws in its bytes, with line numbers, and strict JSON on top of
msgspec.

msgspec decodes fast and checks types, but accepts repeated keys and cannot distinguish NaN from
garbage: a slow second pass
checks for both on suspicious lines.
"""

import errno
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeAlias, TypeVar

import msgspec

from compliance.verdict import Severity
from suite.files.untrusted_files import (
    DEPTH_LIMIT,
    DOCUMENT_LIMIT,
    TOO_DEEP,
    nested_too_deep,
    opened,
)

T = TypeVar("T")

SHOWN: Final = 120
"""Characters of a bad line shown in a finding."""
STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
"""A string, in which digits are a hash."""
HUGE: Final = re.compile(rb"(?<=[:\[,\s])-?\d{25,}")
"""Integers larger than any valid count; arithmetic on them may overflow."""
ALIKE: Final = bytes.maketrans(b"123456789", b"0" * 9)
LONG: Final = b"0" * 25
"""Such an integer with all digits alike, which is found in a tenth of the time: few lines have
one.
"""
BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16 text."""
NAME: Final = re.compile(rb'"([^"\\]*+)"\s*+:')
"""A key, in text without backslashes."""


class Kind(StrEnum):
    """Flaws that a file can have before its content is interpreted."""

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


class Placed(Protocol):
    """Something with a line number, which may have to be computed."""

    @property
    def line(self) -> int:
        """Counted from 1."""
        ...


Where: TypeAlias = int | Placed | None


@dataclass(frozen=True, slots=True)
class Flaw:
    """One flaw in a file."""

    kind: Kind
    found: str
    required: str
    line: int | None = None


@dataclass(slots=True)
class SourceFile:
    """A file that was opened, and its flaws."""

    path: Path
    flaws: list[Flaw] = field(default_factory=list)
    lines: int = 0
    """Lines read so far, if the parser counts them."""
    tail: bytes = b""
    """The last bytes of a log that has been read ..."""
    size: int = 0
    """... and its size."""
    leniency: Mapping[Kind, Severity] = field(default_factory=dict)
    """Severity of flaws that count less than an error in this kind of file: published logs may
    contain what podium's own may not.
    """
    counts: Counter[Kind] = field(default_factory=Counter)
    """Number of flaws of each kind, including those that were dropped."""

    def add(self, kind: Kind, found: str, required: str, line: Where = None) -> None:
        """Record one flaw; beyond a hundred of a kind the rest is dropped, so that garbage takes no
        memory and no line lookups.
        """
        self.counts[kind] += 1
        if self.counts[kind] <= 100:
            self.flaws.append(
                Flaw(
                    kind,
                    found or "nothing",
                    required,
                    line if line is None or isinstance(line, int) else line.line,
                )
            )

    def unreadable(self, error: Exception) -> None:
        """Record why the file cannot be read."""
        missing = isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR)
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        self.add(
            Kind.MISSING if missing else Kind.UNREADABLE,
            "no such file" if missing else reason,
            f"the file {self.path.name}, readable",
        )

    def has(self, *kinds: Kind) -> bool:
        """Return whether the file has a flaw of one of these kinds."""
        return any(flaw.kind in kinds for flaw in self.flaws)


def read_document(
    source: SourceFile, decoder: msgspec.json.Decoder[T], known: frozenset[str] | None = None
) -> T | None:
    """Read a whole JSON document; None with a flaw if that fails, the value with a flaw if it has
    an unknown field.
    """
    try:
        with opened(source.path) as stream:
            text = stream.read(DOCUMENT_LIMIT + 1)
    except (OSError, ValueError) as error:
        source.unreadable(error)
        return None
    if len(text) > DOCUMENT_LIMIT:
        source.add(
            Kind.UNREADABLE, f"more than {DOCUMENT_LIMIT} bytes", "a document below that limit"
        )
        return None
    value = decode(source, decoder, text, None)
    for name in (
        sorted(
            msgspec.json.decode(text.decode("utf-8", "replace"), type=dict[str, msgspec.Raw]).keys()
            - known
        )
        if known and value is not None
        else ()
    ):
        source.add(Kind.SHAPE, f"a field '{shown(name.encode())}'", "only fields of the schema")
    return value


def read_text(source: SourceFile, limit: int = DOCUMENT_LIMIT) -> str:
    """Read a whole text file, empty with a flaw if that fails; invalid UTF-8 becomes replacement
    characters.
    """
    try:
        with opened(source.path) as stream:
            text = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        source.unreadable(error)
        return ""
    if len(text) > limit:
        source.add(Kind.UNREADABLE, f"more than {limit} bytes", f"at most {limit} bytes")
        return ""
    look_at_encoding(source, text, lambda: 1)
    return text.decode("utf-8", "replace")


def decode(
    source: SourceFile,
    decoder: msgspec.json.Decoder[T],
    text: bytes,
    line: int | None,
    limit: int = DOCUMENT_LIMIT,
) -> T | None:
    """Decode strict JSON of one type; None with a flaw if that fails, the value with a flaw if a
    key repeats.
    """
    if len(text) > limit:
        source.add(
            Kind.UNREADABLE, f"a record of {len(text)} bytes", f"at most {limit} bytes", line
        )
        return None
    if LONG in text.translate(ALIKE) and HUGE.search(text) and HUGE.search(STRING.sub(b'""', text)):
        source.add(
            Kind.NUMBER,
            f"a number of 25 digits or more: {shown(text)}",
            "numbers that something counts",
            line,
        )
        return None
    if too_deep(source, text, line):
        return None
    try:
        value = decoder.decode(text)
    except msgspec.ValidationError as error:
        look_closer(source, text, line)
        source.add(Kind.SHAPE, str(error), "the shape required by the schema", line)
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not look_closer(source, text, line):
            source.add(Kind.RECORD, f"{error}: {shown(text)}", "well-formed JSON", line)
        return None
    if suspicious(text):
        look_closer(source, text, line)
    return value


def too_deep(source: SourceFile, text: bytes, line: Where) -> bool:
    """Return whether a text is nested deeper than any record; a flaw if so."""
    deep = nested_too_deep(text)
    if deep:
        source.add(Kind.RECORD, f"{TOO_DEEP}: {shown(text)}", f"at most {DEPTH_LIMIT} levels", line)
    return deep


def suspicious(text: bytes) -> bool:
    """Return whether a key may be repeated, which makes the slow check necessary."""
    if b"\\" in text:
        return True
    names = NAME.findall(text)
    return len(names) != len(set(names))


def look_closer(source: SourceFile, text: bytes, line: Where) -> bool:
    """Check for NaN, Infinity and repeated keys with the slow decoder; return whether any was
    found.
    """
    before = source.counts.total()

    def constant(name: str) -> NoReturn:
        source.add(Kind.NUMBER, name, "finite numbers, as JSON requires", line)
        raise ValueError(name)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        for name in (
            name for name, count in Counter(name for name, _ in items).items() if count > 1
        ):
            source.add(
                Kind.DUPLICATE,
                f"the key '{shown(name.encode('utf-8', 'replace'))}' occurs twice",
                "each key once",
                line,
            )
        return dict(items)

    with suppress(ValueError, RecursionError):  # reported by the caller, or just above
        json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
    return source.counts.total() > before


def look_at_encoding(source: SourceFile, text: bytes, line: Callable[[], int]) -> None:
    """Record NUL bytes, UTF-16 and invalid UTF-8, at the line of the first; `line` returns the line
    at which the text starts.
    """
    if b"\0" not in text and (
        (source.leniency.get(Kind.ENCODING) and not text.startswith(BOMS)) or text.isascii()
    ):
        return
    required = "UTF-8 text without NUL bytes"
    if text.startswith(BOMS) or wide(text):
        source.add(Kind.ENCODING, "UTF-16 text", required, line())
    elif (at := text.find(b"\0")) >= 0:
        source.add(Kind.ENCODING, "a NUL byte", required, line() + text.count(b"\n", 0, at))
    else:
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            source.add(
                Kind.ENCODING,
                f"byte 0x{text[error.start]:02x}",
                required,
                line() + text.count(b"\n", 0, error.start),
            )


def wide(text: bytes) -> bool:
    """Return whether text has two bytes per character: every other byte is NUL, but not all."""
    head = text[:64]
    return (
        len(head) > 8
        and head.strip(b"\0\r\n") != b""
        and not (head[1::2].strip(b"\0") and head[::2].strip(b"\0"))
    )


def shown(text: bytes) -> str:
    """Shorten a bad line for a finding, without terminal control characters."""
    cut = text[:SHOWN].decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in cut) + (
        "..." if len(text) > SHOWN else ""
    )
