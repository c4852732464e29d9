"""Reads and writes the documents of a sweep."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from suite.files.json_files import write_json
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.studies.documents import POINT_FILE, STUDY_FILE, PointIdentity, Study

SWEEP_POINT_DECODER: Final = msgspec.json.Decoder(PointIdentity)
SWEEP_STUDY_DECODER: Final = msgspec.json.Decoder(Study)


def read_sweep_point(folder: Path) -> PointIdentity | None:
    """Read a point's identity; None if it is missing or unreadable."""
    try:
        return read_untrusted_file(folder / POINT_FILE, SWEEP_POINT_DECODER.decode)
    except UnreadableError:
        return None


def read_sweep_study(study_folder: Path) -> Study | None:
    """Read a study's table; None if it is missing or unreadable."""
    try:
        return read_untrusted_file(study_folder / STUDY_FILE, SWEEP_STUDY_DECODER.decode)
    except UnreadableError:
        return None


def write_sweep_document(path: Path, document: PointIdentity | Study) -> None:
    """Write a document atomically."""
    built: Mapping[str, object] = msgspec.to_builtins(document)
    write_json(path, built)
