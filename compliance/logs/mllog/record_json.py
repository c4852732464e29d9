"""Parse the JSON object of a record, with the deviations in accepted logs: a trailing progress bar,
Python literals, a repeated key.
"""

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from compliance.logs.line_numbers import LineNumbers
from compliance.logs.mllog.formal_records import has_fault_in_formal_key
from compliance.logs.source_file import (
    ParseErrorKind,
    SourceFile,
    format_excerpt,
    report_excess_nesting,
    report_json_defects,
)
from compliance.verdict import About

VALUE_FIRST_PATTERN: Final = re.compile(
    rb'\s*\{"value": (?P<value>[^{}]*), "metadata": (?P<metadata>\{.*\})\}\s*'
)
VALUE_LAST_PATTERN: Final = re.compile(
    rb'\s*\{"metadata": (?P<metadata>\{.*\}), "value": (?P<value>[^{}]*)\}\s*'
)
MAX_LITERAL_LENGTH: Final = 4_096
"""Maximum length of a Python dict that is parsed."""
NAME_END_BLANKS: Final = b" \t\r"
"""Characters allowed between a name and its colon."""
DECISIVE_NAMES: Final = (b"run_start", b"run_stop", b"eval_accuracy")
"""Names of the events that the time and the quality of a run rest on."""
RECORD_OBJECT_DECODER: Final = msgspec.json.Decoder()


class RecordWrapping(NamedTuple):
    """What stands around a record."""

    found: str
    advice: str


DOCKER_WRAPPING: Final = RecordWrapping(
    "a record within a JSON string, as in Docker's json-file log",
    "write the log with `docker logs`, or from the program itself.",
)
BEHIND_RECORD: Final = (
    (
        re.compile(rb"(?:\x1b\[[0-9;]*[mK])+\s*"),
        RecordWrapping(
            r"a colour code (\x1b[0m) behind the record",
            "log without colours, or take them out of the log.",
        ),
    ),
    (
        re.compile(rb"(?:\\n)?['\"][)\]>,]*\s*"),
        RecordWrapping(
            "a quotation mark behind the record, as Python's repr writes it",
            "log the text itself, not its repr.",
        ),
    ),
)
"""What may follow the last brace of a record, and what it is a sign of."""


class RecordPosition(NamedTuple):
    """The position of a record."""

    order: int
    lines: LineNumbers

    @property
    def line(self) -> int:
        """The record's line, from 1."""
        return self.lines.find_record_line(self.order)


def decode_record_object(
    source: SourceFile, position: RecordPosition, text: bytes
) -> dict[str, Any] | None:
    """Decode a record's JSON object, without a progress bar written after it behind a carriage
    return.
    """
    if report_excess_nesting(source, text, position):
        return None
    try:
        table = RECORD_OBJECT_DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return recover_record_object(source, position, text)
    if type(table) is not dict:
        source.add_parse_error(
            ParseErrorKind.RECORD, format_excerpt(text), "a JSON object", position
        )
        return None
    if count_text_names(text) != count_object_names(table):
        report_json_defects(source, text.strip(), position)
    return table


def recover_record_object(
    source: SourceFile, position: RecordPosition, text: bytes
) -> dict[str, Any] | None:
    """Find out why a record is not JSON: a trailing progress bar is ignored, anything else is a
    parse error.
    """
    front, bar, _ = text.partition(b"\r")
    try:
        latin = b""
        if bar or not front.isascii():
            latin = front.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
        table = RECORD_OBJECT_DECODER.decode(latin)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        table = None
    if type(table) is dict:
        return table
    if (half := parse_half_python_record(front)) is not None:
        source.add_parse_error(
            ParseErrorKind.FOREIGN,
            f"metadata as Python prints it: {format_excerpt(text)}",
            "a JSON object",
            position,
        )
        return half
    if wrapping := find_record_wrapping(text):
        decisive = any(name in text for name in DECISIVE_NAMES)
        source.add_parse_error(
            ParseErrorKind.RECORD,
            wrapping.found,
            "the record alone, as the run logged it",
            position,
            About.SCORE if decisive else None,
            wrapping.advice,
        )
        return None
    loose = parse_lenient_object(front)
    # mlcommons/logging writes NaN as Python does
    if loose is not None and not has_fault_in_formal_key(loose):
        source.add_parse_error(
            ParseErrorKind.FOREIGN,
            f"invalid JSON: {format_excerpt(text)}",
            "finite numbers, and each name once",
            position,
        )
    elif not report_json_defects(source, text, position):
        source.add_parse_error(
            ParseErrorKind.RECORD,
            format_excerpt(text),
            "one complete JSON object up to the end of the line",
            position,
        )
    return loose


def find_record_wrapping(text: bytes) -> RecordWrapping | None:
    """Return what a program that passed a record on has put around it; None if nothing known."""
    if text.startswith(b'{\\"'):
        return DOCKER_WRAPPING
    end = text.rfind(b"}") + 1
    for pattern, wrapping in BEHIND_RECORD:
        if pattern.fullmatch(text, end) and parse_lenient_object(text[:end]) is not None:
            return wrapping
    return None


def parse_half_python_record(text: bytes) -> dict[str, Any] | None:
    """Parse a record whose value is JSON and whose metadata is a Python dict, as one program of
    v0.6 printed it; None for anything else.
    """
    match = VALUE_FIRST_PATTERN.fullmatch(text) or VALUE_LAST_PATTERN.fullmatch(text)
    metadata = None
    if match:
        metadata = parse_python_dict(match["metadata"].decode("utf-8", "replace"))
    if match is None or metadata is None:
        return None
    try:
        return {"value": RECORD_OBJECT_DECODER.decode(match["value"]), "metadata": metadata}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def parse_python_dict(text: str) -> dict[str, Any] | None:
    """Parse a Python dict of plain values without executing anything; None for anything else, and
    for an overlong one.
    """
    if len(text) > MAX_LITERAL_LENGTH or not text.lstrip().startswith("{"):
        return None
    try:
        # suppress Python's warnings about the parsed text
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
            table = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if type(table) is dict and all(type(name) is str for name in table):
        return table
    return None


def parse_lenient_object(text: bytes) -> dict[str, Any] | None:
    """Parse what Python's decoder accepts (NaN, a repeated key), so that one parse error is not
    reported as many.
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if type(table) is dict:
        return table
    return None


def count_text_names(text: bytes) -> int:
    """Count the names of objects in a text, including those with blanks before their colons;
    lookalikes within strings count too.
    """
    return text.translate(None, NAME_END_BLANKS).count(b'":')


def count_object_names(table: Mapping[str, Any]) -> int:
    """Count the names of an object and of the objects directly in it."""
    return len(table) + sum(
        len(value) + sum(type(each) is dict and len(each) for each in value.values())
        for value in table.values()
        if type(value) is dict
    )
