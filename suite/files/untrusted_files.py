"""Readers for untrusted files: truncated by a kill, typed by a user, or submitted by someone else.

A reader returns a value or raises UnreadableError, which names the file and the reason, and nothing
else, whatever the bytes are.
"""

import errno
import os
import re
import stat
import tomllib
from collections.abc import Callable
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeVar

from suite.errors import JudgedError

T = TypeVar("T")

MAX_DOCUMENT_BYTES: Final = 4 << 20
"""Size limit in bytes of a document that is read whole; records, states and descriptions have a few
thousand.
"""
READ_PIECE_BYTES: Final = 1 << 20
MAX_SETTINGS_BYTES: Final = 64 << 10
"""Size limit in bytes of a TOML file written by a user."""
MAX_DOTS_PER_LINE: Final = 256
"""Limit of dots in one line of TOML: tomllib's time grows with the square of a key's parts."""
MAX_NESTING_DEPTH: Final = 200
"""Levels of lists and objects within one another. Python's own limit hangs on its version: about
1,000 in 3.11, 10,000 in 3.13.
"""
JSON_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string of JSON, or one that nothing ends. Possessive: a state to go back to for each letter
would take a hundred times its memory.
"""
NON_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
"""All bytes but brackets."""
MAX_INTEGER_BITS: Final = 63
"""Bits of integers in settings, without the sign. Source: toml.io v1.0.0, Integer; Python's parsers
accept any size.
"""
NESTED_TOO_DEEP: Final = "nested too deep"
MAX_MESSAGE_CHARACTERS: Final = 200
"""Characters of a parser's message that are passed on."""
UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16, which Windows' editors and shells write."""
WHOLE_DECIMALS: Final = re.compile(r"\.0*$")
"""Decimals of a whole number, which JSON and spreadsheets write as 1.0."""
DECIMAL_DIGITS: Final = re.compile(r"[0-9]{1,18}")


class UnreadableError(JudgedError):
    """A file that cannot be parsed as the expected format."""

    def __init__(self, path: Path, reason: str, *, missing: bool = False) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason, self.missing = path, reason, missing


def open_regular_file(path: Path) -> BufferedReader:
    """Open a regular file for reading; OSError for anything else, so that a pipe or a device never
    blocks.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, "not a plain file", str(path))
    return os.fdopen(descriptor, "rb")


def read_untrusted_file(
    path: Path, parse: Callable[[bytes], T], limit: int = MAX_DOCUMENT_BYTES
) -> T:
    """Read a whole document; UnreadableError if it is missing, larger than the limit, or rejected
    by `parse`.
    """
    size = 0
    try:
        with open_regular_file(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            content = read_in_pieces(stream, limit + 1)
        if len(content) > limit:
            raise UnreadableError(path, f"larger than {limit} bytes")
        return parse(content)
    except OSError as error:
        raise UnreadableError(
            path,
            error.strerror or str(error),
            missing=isinstance(error, FileNotFoundError | NotADirectoryError),
        ) from error
    except MemoryError as error:
        raise UnreadableError(
            path, f"no memory left for reading a file of {size:,} bytes"
        ) from error
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise UnreadableError(path, describe_parse_failure(error)) from error


def read_in_pieces(stream: BufferedReader, limit: int) -> bytes:
    """Read at most `limit` bytes; one read of as many would reserve them all at once."""
    pieces: list[bytes] = []
    while limit and (piece := stream.read(min(limit, READ_PIECE_BYTES))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def read_untrusted_text(
    path: Path, encoding: str = "utf-8", limit: int = MAX_DOCUMENT_BYTES
) -> str:
    """Read a whole text file."""
    return read_untrusted_file(path, lambda content: content.decode(encoding), limit)


def read_untrusted_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file written by a user."""
    return read_untrusted_file(
        path, lambda content: parse_toml(decode_user_text(content)), MAX_SETTINGS_BYTES
    )


def decode_user_text(content: bytes) -> str:
    """Decode a file that a user wrote in an editor, with a byte order mark or without one;
    ValueError if it is not UTF-8.
    """
    if content.startswith(UTF16_MARKS):
        raise ValueError("is UTF-16; save it as UTF-8")
    return content.decode("utf-8-sig")


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; ValueError if it is invalid, nested too deeply, or has integers of more than 64
    bits.
    """
    if any(line.count(".") > MAX_DOTS_PER_LINE for line in text.splitlines()):
        raise ValueError(f"more than {MAX_DOTS_PER_LINE} dots in one line")
    try:
        table = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(describe_parse_failure(error)) from error
    return require_bounded_integers(table)


def is_nested_too_deep(text: bytes) -> bool:
    """Return whether lists and objects of a JSON text lie more than MAX_NESTING_DEPTH levels deep
    within one another, without parsing it.
    """
    if text.count(b"[") + text.count(b"{") <= MAX_NESTING_DEPTH:
        return False
    brackets = JSON_STRING.sub(b"", text).translate(None, NON_BRACKETS)
    return any(
        depth > MAX_NESTING_DEPTH
        for depth in accumulate(1 if bracket in b"[{" else -1 for bracket in brackets)
    )


def require_bounded_integers(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table whose integers have at most 64 bits; ValueError for a larger one, on which
    arithmetic may fail.
    """
    values: list[Any] = [table]
    while values:
        value = values.pop()
        if isinstance(value, dict | list):
            values += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
            raise ValueError("a whole number has more than 64 bits")
    return table


def describe_parse_failure(error: Exception) -> str:
    """Return in a few words why bytes were rejected."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text: byte 0x{error.object[error.start]:02x} at offset {error.start}"
    if isinstance(error, RecursionError):
        return NESTED_TOO_DEEP
    if isinstance(error, MemoryError):
        return "too large for this machine's memory"
    text = " ".join(str(error).split()) or type(error).__name__
    if text.startswith("Exceeds the limit"):  # Python's own message names one of its functions
        return "a whole number has too many digits"
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    return f"{text[:MAX_MESSAGE_CHARACTERS]}..."


def replace_unprintable(text: str) -> str:
    """Return one line that is safe to print in a terminal: untrusted names may contain line breaks
    and escape sequences.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def parse_digits(text: str) -> int | None:
    """Parse at most 18 digits 0-9; None for anything else, including digits of other scripts."""
    if DECIMAL_DIGITS.fullmatch(text):
        return int(text)
    return None


def parse_document_count(value: object) -> int | None:
    """Read a count from a document, given as a whole number, also with a decimal point and zeros,
    or as its digits; None for anything else.
    """
    if type(value) not in (int, float, str):
        return None
    return parse_digits(WHOLE_DECIMALS.sub("", str(value).strip()))
