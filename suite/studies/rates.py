"""The documents of studies of rates: `study.json` of speed alone, and of a search for the peak rate.

The harness writes them and the judge recomputes them from the LoadGen runs that they name.
"""

from dataclasses import dataclass
from typing import Final

SPEED: Final = "speed"
NOT_SUBMITTABLE: Final = "speed alone: no accuracy was asked for, and it is no result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """What was measured, on what."""

    workload: str
    profile: str
    checkpoint_sha256: str
    origin: str
    """Where weights come from that were not trained here; empty for a trained checkpoint."""
    engine: str
    precision: str
    framework: str
    device: str
    threads: int
    system: str
    version: str
    """Version of podium."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRow:
    """One performance run."""

    scenario: str
    """LoadGen's name of it."""
    folder: str
    """Relative to the study's."""
    verdict: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """`study.json` of `podium infer --weights`."""

    kind: str
    note: str
    stamps: Stamps
    rows: tuple[SpeedRow, ...]
