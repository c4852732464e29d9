"""A system description of a published training round: JSON, or in v0.6 also lines of `name:
{"value": ...}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import FileDocument
from compliance.kinds.training.round import PublishedTraining
from compliance.logs.source_file import (
    ParseErrorKind,
    SourceFile,
    check_text_encoding,
    decode_strict_json,
    format_excerpt,
    read_document_bytes,
)
from compliance.recognition.tree_path import TreePosition
from compliance.verdict import Severity

DESCRIPTION_LINE_PATTERN: Final = re.compile(r"(\w+): (\{.*\})")
JSON_FIELD_OF_LINE: Final = {"org": "submitter", "platform": "system_name"}
"""Names that the lines use for the JSON fields."""
LINE_FORM_ROUND: Final = "training-v0.6"
DESCRIPTION_LENIENCY: Final = {
    ParseErrorKind.ENCODING: Severity.INFO,
    ParseErrorKind.DUPLICATE: Severity.WARNING,
}
"""Defects of accepted descriptions of v1.0 and later."""
DESCRIPTION_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSystem(FileDocument):
    """A system description."""

    document_name: ClassVar[str] = "a system description"

    table: Mapping[str, Any] | None
    """Field -> value, as in the file; None if it cannot be read."""
    place: TreePosition
    round: PublishedTraining

    def find_text(self, field: str) -> str | None:
        """Return the text of a field; None if it is missing, empty or not text."""
        value = None
        if self.table:
            value = self.table.get(field)
        if isinstance(value, str):
            return value.strip() or None
        return None


def read_described_system(
    path: Path, place: TreePosition, round: PublishedTraining
) -> DescribedSystem:
    """Read a description; problems are recorded as parse errors of its source."""
    if round.rules.placeholders:
        leniency = DESCRIPTION_LENIENCY
    else:
        leniency = {ParseErrorKind.ENCODING: Severity.INFO}
    source = SourceFile(path, leniency=leniency)
    content = read_document_bytes(source)
    table = None
    if content is not None:
        check_text_encoding(source, content, lambda: 1)
        text = content.decode("utf-8", "replace")
        if round.name == LINE_FORM_ROUND:
            lined = parse_description_lines(text)
        else:
            lined = {}
        table = lined or decode_strict_json(source, DESCRIPTION_DECODER, text.encode(), None)
    return DescribedSystem(source=source, table=table, place=place, round=round)


def parse_description_lines(text: str) -> dict[str, Any]:
    """Parse lines of `name: {"value": ...}`; empty if any line is not of that form."""
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        match = DESCRIPTION_LINE_PATTERN.fullmatch(line)
        try:
            value = None
            if match:
                value = DESCRIPTION_DECODER.decode(match[2]).get("value")
        except msgspec.DecodeError:
            value = None
        if match is None or value is None:
            return {}
        found[JSON_FIELD_OF_LINE.get(match[1], match[1])] = value
    return found


def format_value_excerpt(value: object) -> str:
    """Shorten a value for a finding."""
    return format_excerpt(repr(value).encode())
