"""A system description of a published training round: JSON, or in v0.6 also lines of `name:
{"value": ...}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.logs.source_file import Kind, SourceFile, decode, read_text, shown
from compliance.recognition.tree_path import Place
from compliance.verdict import Fault, Severity
from suite.rounds.published_training import PublishedTraining

LINE: Final = re.compile(r"(\w+): (\{.*\})")
NAMES: Final = {"org": "submitter", "platform": "system_name"}
"""Names that the lines use for the JSON fields."""
LINES_IN: Final = "training-v0.6"
LENIENCY: Final = {Kind.ENCODING: Severity.INFO, Kind.DUPLICATE: Severity.WARNING}
"""Flaws that accepted descriptions of v1.0 and later have."""
DECODER: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSystem:
    """A system description and its path."""

    path: Path
    source: SourceFile
    table: Mapping[str, Any] | None
    """Field -> value, as in the file; None if it cannot be read."""
    place: Place
    round: PublishedTraining

    def told(self, field: str) -> str | None:
        """Return the text of a field; None if it is missing, empty or not text."""
        value = self.table.get(field) if self.table else None
        return value.strip() or None if isinstance(value, str) else None

    def fault(self, found: str, required: str, severity: Severity | None = None) -> Fault:
        """Build a Fault for this file."""
        return Fault(file=self.path, found=found, required=required, severity=severity)


def read_described(path: Path, place: Place, round: PublishedTraining) -> DescribedSystem:
    """Read a description; problems are recorded as flaws of its source."""
    source = SourceFile(
        path, leniency=LENIENCY if round.rules.placeholders else {Kind.ENCODING: Severity.INFO}
    )
    text = read_text(source)
    table = None
    if not source.has(Kind.MISSING, Kind.UNREADABLE):
        lined = lines(text) if round.name == LINES_IN else {}
        table = lined or decode(source, DECODER, text.encode(), None)
    return DescribedSystem(path=path, source=source, table=table, place=place, round=round)


def lines(text: str) -> dict[str, Any]:
    """Parse lines of `name: {"value": ...}`; empty if any line is not of that form."""
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        match = LINE.fullmatch(line)
        try:
            value = DECODER.decode(match[2]).get("value") if match else None
        except msgspec.DecodeError:
            value = None
        if match is None or value is None:
            return {}
        found[NAMES.get(match[1], match[1])] = value
    return found


def excerpt(value: object) -> str:
    """Shorten a value for a finding."""
    return shown(repr(value).encode())
