"""The JSON object of a record, with the deviations of accepted logs: a trailing progress bar,
Python literals, a repeated key.
"""

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from compliance.logs.line_numbers import Lines
from compliance.logs.mllog.formal_records import is_formal
from compliance.logs.source_file import Kind, SourceFile, look_closer, shown, too_deep

VALUE_FIRST: Final = re.compile(
    rb'\s*\{"value": (?P<value>[^{}]*), "metadata": (?P<metadata>\{.*\})\}\s*'
)
VALUE_LAST: Final = re.compile(
    rb'\s*\{"metadata": (?P<metadata>\{.*\}), "value": (?P<value>[^{}]*)\}\s*'
)
LITERAL_LIMIT: Final = 4_096
"""Maximum length of a Python dict that is parsed."""
BLANKS: Final = b" \t\r"
"""Characters allowed between a name and its colon."""
DECODER: Final = msgspec.json.Decoder()


class Place(NamedTuple):
    """The position of a record."""

    order: int
    lines: Lines

    @property
    def line(self) -> int:
        """The record's line, from 1."""
        return self.lines.of(self.order)


def table_of(source: SourceFile, place: Place, text: bytes) -> dict[str, Any] | None:
    """Decode a record's JSON object, without a progress bar written after it behind a carriage
    return.
    """
    if too_deep(source, text, place):
        return None
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
    """Find out why a record is not JSON: a trailing progress bar is ignored, anything else is a
    flaw.
    """
    front, bar, _ = text.partition(b"\r")
    try:
        latin = (
            front.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
            if bar or not front.isascii()
            else b""
        )
        table = DECODER.decode(latin)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        table = None
    if type(table) is dict:
        return table
    if (half := half_python(front)) is not None:
        source.add(
            Kind.FOREIGN, f"metadata as Python writes it: {shown(text)}", "a JSON object", place
        )
        return half
    loose = loose_table(front)
    if loose is not None and not is_formal(loose):  # mlcommons/logging writes NaN as Python does
        source.add(
            Kind.FOREIGN, f"no JSON: {shown(text)}", "finite numbers, and each name once", place
        )
    elif not look_closer(source, text, place):
        source.add(Kind.RECORD, shown(text), "one whole JSON object to the end of the line", place)
    return loose


def half_python(text: bytes) -> dict[str, Any] | None:
    """Parse a record whose value is JSON and whose metadata is a Python dict, as one program of
    v0.6 printed it; None for anything else.
    """
    match = VALUE_FIRST.fullmatch(text) or VALUE_LAST.fullmatch(text)
    metadata = python_literal(match["metadata"].decode("utf-8", "replace")) if match else None
    if match is None or metadata is None:
        return None
    try:
        return {"value": DECODER.decode(match["value"]), "metadata": metadata}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def python_literal(text: str) -> dict[str, Any] | None:
    """Parse a Python dict of plain values without executing anything; None for anything else, and
    for an overlong one.
    """
    if len(text) > LITERAL_LIMIT or not text.lstrip().startswith("{"):
        return None
    try:
        with warnings.catch_warnings(
            action="ignore", category=SyntaxWarning
        ):  # Python's warnings about text that is not ours
            table = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return table if type(table) is dict and all(type(name) is str for name in table) else None


def loose_table(text: bytes) -> dict[str, Any] | None:
    """Parse what Python's decoder accepts (NaN, a repeated key), so that one flaw is not reported
    as many.
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return table if type(table) is dict else None


def names_in(text: bytes) -> int:
    """Count the names of objects in a text, including those with blanks before their colons;
    lookalikes within strings count too.
    """
    return text.translate(None, BLANKS).count(b'":')


def names_below(table: Mapping[str, Any]) -> int:
    """Count the names of an object and of the objects directly in it."""
    return len(table) + sum(
        len(value) + sum(type(each) is dict and len(each) for each in value.values())
        for value in table.values()
        if type(value) is dict
    )
