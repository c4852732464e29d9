"""The two documents of a study: `study.json`, and `point.json` beside the files of each run.

They hold what those files do not say. Figures, answers and tables are computed when they are read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.files.json_files import write_json
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.studies.documents import POINT_FILE, STUDY_FILE, StudyMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRequest:
    """What a command asked for."""

    request: dict[str, Any]
    """Of the study's kind."""
    repeats: int = 1
    """How often each point is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPoint:
    """A point that could not be measured."""

    point: dict[str, Any]
    """Of the study's kind."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """`study.json`."""

    kind: str
    origin: str
    """Where weights come from that were not trained here; empty for a trained checkpoint."""
    requests: tuple[SavedRequest, ...]
    """Of all commands that measured the study, each once."""
    runs: tuple[str, ...]
    """Folders of the runs, relative to the study's, in the order in which they were made."""
    machine: StudyMachine
    failed: tuple[FailedPoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord:
    """`point.json` beside LoadGen's files."""

    number: int
    """Of the run in the study, from 1."""
    repeat: int
    """Of the run among those of its point, from 1."""
    point: dict[str, Any]
    """Of the study's kind."""
    seconds: float
    """Wall-clock time of the run, with the start of the system."""


STUDY_RECORD_DECODER: Final = msgspec.json.Decoder(StudyRecord)
POINT_RECORD_DECODER: Final = msgspec.json.Decoder(PointRecord)


def find_study_record(folder: Path) -> StudyRecord | None:
    """Read `study.json`; None if it is missing or unreadable."""
    try:
        return read_untrusted_file(folder / STUDY_FILE, STUDY_RECORD_DECODER.decode)
    except UnreadableError:
        return None


def find_point_record(folder: Path) -> PointRecord | None:
    """Read `point.json` of a run; None if it is missing or unreadable."""
    try:
        return read_untrusted_file(folder / POINT_FILE, POINT_RECORD_DECODER.decode)
    except UnreadableError:
        return None


def write_study_record(folder: Path, record: StudyRecord) -> None:
    """Write `study.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / STUDY_FILE, msgspec.to_builtins(record))


def write_point_record(folder: Path, record: PointRecord) -> None:
    """Write `point.json` beside the files of a run."""
    write_json(folder / POINT_FILE, msgspec.to_builtins(record))
