"""The JSON object of a record, where an accepted log may write it otherwise: a progress bar behind it, Python's own literals, a key told twice."""

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from compliance.logs.line_numbers import Lines
from compliance.logs.source_file import Kind, SourceFile, look_closer, shown

VALUE_FIRST: Final = re.compile(rb'\s*\{"value": (?P<value>[^{}]*), "metadata": (?P<metadata>\{.*\})\}\s*')
VALUE_LAST: Final = re.compile(rb'\s*\{"metadata": (?P<metadata>\{.*\}), "value": (?P<value>[^{}]*)\}\s*')
LITERAL_LIMIT: Final = 4_096
"""Characters of a Python dict that is read."""
BLANKS: Final = b" \t\r"
"""What may stand between a name and its colon."""
DECODER: Final = msgspec.json.Decoder()


class Place(NamedTuple):
    """Where a record stands."""

    order: int
    lines: Lines

    @property
    def line(self) -> int:
        """Its line, from 1."""
        return self.lines.of(self.order)


def table_of(source: SourceFile, place: Place, text: bytes) -> dict[str, Any] | None:
    """Decode a record's JSON object; what a progress bar wrote behind it after a carriage return is left out."""
    try:
        table = DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return slow_table(source, place, text)
    if type(table) is not dict:
        source.add(Kind.RECORD, shown(text), "a JSON object", place)
        return None
    if names_in(text) != names_below(table):
        look_closer(source, text.strip(), place)
    return table


def slow_table(source: SourceFile, place: Place, text: bytes) -> dict[str, Any] | None:
    """Find out why a record is no JSON: a progress bar behind it is none of its business, anything else is a flaw."""
    front, bar, _ = text.partition(b"\r")
    try:
        latin = front.decode("utf-8", "surrogateescape").encode("utf-8", "replace") if bar or not front.isascii() else b""
        table = DECODER.decode(latin)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        table = None
    if type(table) is dict:
        return table
    if (half := half_python(front)) is not None:
        source.add(Kind.FOREIGN, f"metadata as Python writes it: {shown(text)}", "a JSON object", place)
        return half
    if not look_closer(source, text, place):
        source.add(Kind.RECORD, shown(text), "one whole JSON object to the end of the line", place)
    return loose_table(front)


def half_python(text: bytes) -> dict[str, Any] | None:
    """Read a record whose value is JSON and whose metadata is a Python dict, as one program of v0.6 printed it; None for anything else."""
    match = VALUE_FIRST.fullmatch(text) or VALUE_LAST.fullmatch(text)
    metadata = python_literal(match["metadata"].decode("utf-8", "replace")) if match else None
    if match is None or metadata is None:
        return None
    try:
        return {"value": DECODER.decode(match["value"]), "metadata": metadata}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def python_literal(text: str) -> dict[str, Any] | None:
    """Read a Python dict of plain values, without running anything; None for anything else, and for one that is long."""
    if len(text) > LITERAL_LIMIT or not text.lstrip().startswith("{"):
        return None
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # Python's words on somebody else's text
            table = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return table if type(table) is dict and all(type(name) is str for name in table) else None


def loose_table(text: bytes) -> dict[str, Any] | None:
    """Read what Python's decoder takes: NaN, a repeated key; so that one flaw is not told as many."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return table if type(table) is dict else None


def names_in(text: bytes) -> int:
    """Count the names of objects in a text, also those with blanks before their colons; what looks like one in a string counts too."""
    return text.translate(None, BLANKS).count(b'":')


def names_below(table: Mapping[str, Any]) -> int:
    """Count the names of an object and of those right in it."""
    return len(table) + sum(len(value) + sum(type(each) is dict and len(each) for each in value.values()) for value in table.values() if type(value) is dict)
