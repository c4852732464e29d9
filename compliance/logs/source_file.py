"""A file as read by the judge: the flaws of its bytes, line by line, and strict JSON on top of msgspec.

msgspec decodes fast and checks types, but takes a repeated key and cannot tell NaN from garbage: a second, slow look
does both where a line gives a reason to.
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
from suite.files.untrusted_files import DOCUMENT_LIMIT, opened

T = TypeVar("T")

SHOWN: Final = 120
"""Characters of a bad line that a finding shows."""
HUGE: Final = re.compile(rb"(?<=[:\[,\s])-?\d{25,}")
"""Integers that nothing here counts; arithmetic on them may overflow."""
BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
"""What UTF-16 text begins with."""
NAME: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')


class Kind(StrEnum):
    """What can be wrong with a file before anybody asks what it says."""

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
    """What knows its line, and may have to look for it."""

    @property
    def line(self) -> int:
        """From 1."""
        ...


Where: TypeAlias = int | Placed | None


@dataclass(frozen=True, slots=True)
class Flaw:
    """One place where a file is not what it should be."""

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
    """Lines read so far, where a parser counts them."""
    tail: bytes = b""
    """The last bytes of a log, once it is read ..."""
    size: int = 0
    """... and how many it has."""
    leniency: Mapping[Kind, Severity] = field(default_factory=dict)
    """What weighs less than an error in this kind of file: published logs may hold what podium's own may not."""
    counts: Counter[Kind] = field(default_factory=Counter)
    """Flaws of each kind that were met, those too that are not kept."""

    def add(self, kind: Kind, found: str, required: str, line: Where = None) -> None:
        """Write down one flaw; of more than a hundred of a kind the rest is dropped, so that garbage needs no memory and no look for its lines."""
        self.counts[kind] += 1
        if self.counts[kind] <= 100:
            self.flaws.append(Flaw(kind, found or "nothing", required, line if line is None or isinstance(line, int) else line.line))

    def unreadable(self, error: Exception) -> None:
        """Write down why the file cannot be read."""
        missing = isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR)
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        self.add(Kind.MISSING if missing else Kind.UNREADABLE, "no such file" if missing else reason, f"the file {self.path.name}, readable")

    def has(self, *kinds: Kind) -> bool:
        """Return whether the file has a flaw of one of these kinds."""
        return any(flaw.kind in kinds for flaw in self.flaws)


def read_document(source: SourceFile, decoder: msgspec.json.Decoder[T], known: frozenset[str] | None = None) -> T | None:
    """Read a JSON document whole; None with a flaw where it cannot be, the value with a flaw where it has a field that is not known."""
    try:
        with opened(source.path) as stream:
            text = stream.read(DOCUMENT_LIMIT + 1)
    except (OSError, ValueError) as error:
        source.unreadable(error)
        return None
    if len(text) > DOCUMENT_LIMIT:
        source.add(Kind.UNREADABLE, f"more than {DOCUMENT_LIMIT} bytes", "a document below that limit")
        return None
    value = decode(source, decoder, text, None)
    for name in sorted(msgspec.json.decode(text.decode("utf-8", "replace"), type=dict[str, msgspec.Raw]).keys() - known) if known and value is not None else ():
        source.add(Kind.SHAPE, f"a field '{shown(name.encode())}'", "only fields of the schema")
    return value


def read_text(source: SourceFile, limit: int = DOCUMENT_LIMIT) -> str:
    """Read a text file whole, empty with a flaw where it cannot be; bytes that are no UTF-8 become marks."""
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


def decode(source: SourceFile, decoder: msgspec.json.Decoder[T], text: bytes, line: int | None, limit: int = DOCUMENT_LIMIT) -> T | None:
    """Decode strict JSON of one type; None with a flaw where it is not, the value with a flaw where a key is repeated."""
    if len(text) > limit:
        source.add(Kind.UNREADABLE, f"a record of {len(text)} bytes", f"at most {limit} bytes", line)
        return None
    if HUGE.search(text):
        source.add(Kind.NUMBER, f"a number of 25 digits or more: {shown(text)}", "numbers that something counts", line)
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


def suspicious(text: bytes) -> bool:
    """Return whether a key may stand twice: only then is the slow look worth it."""
    if b"\\" in text:
        return True
    names = NAME.findall(text)
    return len(names) != len(set(names))


def look_closer(source: SourceFile, text: bytes, line: Where) -> bool:
    """Look for NaN, Infinity and repeated keys with the slow decoder; tell whether there was any."""
    before = len(source.flaws)

    def constant(name: str) -> NoReturn:
        source.add(Kind.NUMBER, name, "finite numbers, as JSON requires", line)
        raise ValueError(name)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        for name in (name for name, count in Counter(name for name, _ in items).items() if count > 1):
            source.add(Kind.DUPLICATE, f"the key '{shown(name.encode('utf-8', 'replace'))}' occurs twice", "each key once", line)
        return dict(items)

    with suppress(ValueError, RecursionError): # told by the caller, or just now
        json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
    return len(source.flaws) > before


def look_at_encoding(source: SourceFile, text: bytes, line: Callable[[], int]) -> None:
    """Write down NUL bytes, UTF-16 and bytes that are no UTF-8, at the line of the first; `line` tells that of the text's start."""
    if b"\0" not in text and ((source.leniency.get(Kind.ENCODING) and not text.startswith(BOMS)) or text.isascii()):
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
            source.add(Kind.ENCODING, f"byte 0x{text[error.start]:02x}", required, line() + text.count(b"\n", 0, error.start))


def wide(text: bytes) -> bool:
    """Tell text of two bytes a letter: every other byte of it is NUL, and not every one."""
    head = text[:64]
    return len(head) > 8 and head.strip(b"\0\r\n") != b"" and not (head[1::2].strip(b"\0") and head[::2].strip(b"\0"))


def shown(text: bytes) -> str:
    """Shorten a bad line for a finding, with nothing in it that a terminal would act on."""
    cut = text[:SHOWN].decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in cut) + ("..." if len(text) > SHOWN else "")
