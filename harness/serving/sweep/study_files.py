"""Reads and writes the documents of a sweep."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from suite.files.json_files import write_json
from suite.files.untrusted_files import UnreadableError, read
from suite.studies.documents import POINT, STUDY, Point, Study

POINTS: Final = msgspec.json.Decoder(Point)
TABLES: Final = msgspec.json.Decoder(Study)


def point_in(folder: Path) -> Point | None:
    """Read a point's identity; None if it is missing or unreadable."""
    try:
        return read(folder / POINT, POINTS.decode)
    except UnreadableError:
        return None


def study_in(home: Path) -> Study | None:
    """Read a study's table; None if it is missing or unreadable."""
    try:
        return read(home / STUDY, TABLES.decode)
    except UnreadableError:
        return None


def save(path: Path, document: Point | Study) -> None:
    """Write a document atomically."""
    built: Mapping[str, object] = msgspec.to_builtins(document)
    write_json(path, built)
