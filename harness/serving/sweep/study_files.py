"""Reads and writes the documents of a sweep."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from suite.files.untrusted_files import UnreadableError, read
from suite.records import write_json
from suite.studies import POINT, Point, Study

POINTS: Final = msgspec.json.Decoder(Point)


def point_in(folder: Path) -> Point | None:
    """Read what a point was measured of; None where there is nothing that can be read."""
    try:
        return read(folder / POINT, POINTS.decode)
    except UnreadableError:
        return None


def save(path: Path, document: Point | Study) -> None:
    """Write a document as a whole."""
    built: Mapping[str, object] = msgspec.to_builtins(document)
    write_json(path, built)


