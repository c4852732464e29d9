"""The files of a study, by their names, and the machine that its record describes."""

from dataclasses import dataclass, field
from typing import Final

STUDIES_FOLDER: Final = "studies"
STUDY_FILE: Final = "study.json"
POINT_FILE: Final = "point.json"
IDLE_TELEMETRY_FILE: Final = "idle.jsonl"
"""Telemetry from before the first point, if power can be read."""
STUDY_TRUTH_FOLDER: Final = "truth"
SAMPLES_LIST_FILE: Final = "samples.txt"
"""In the ground truth of a bare network: the samples that it was scored on, names and bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyMachine:
    """The processor and the software that a study was measured with, and its commands."""

    processor: str
    """Model of the processors; empty if the machine does not tell it."""
    processors: int | None
    """Number of them; None if the machine does not tell it."""
    packages: dict[str, str]
    """Installed distribution -> version."""
    commands: tuple[tuple[str, ...], ...]
    """Command lines, in the order in which they first ran."""
    packages_of_b: dict[str, str] = field(default_factory=dict)
    """Of two sides: what side B has in another version than `packages`, or besides them."""
