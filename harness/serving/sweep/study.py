"""The documents of a sweep: a record beside each point's LoadGen files, and `study.json` with the table. Their schema is study.json of the judge."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.files.untrusted_files import UnreadableError, read
from suite.records import write_json

STUDIES: Final = "studies"
STUDY: Final = "study.json"
POINT: Final = "point.json"
ACCURACY: Final = "accuracy"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a point was measured of, and how: equal identities need not be measured twice."""

    subject: str
    """Name of a workload or of a bare network."""
    bare: bool
    weights: str
    """SHA-256 of the checkpoint or of the file of weights; `random, seed N` of a bare network without any."""
    profile: str | None
    """Of a workload."""
    engine: str
    precision: str
    framework: str
    device: str
    threads: int
    batch: int
    seconds: float
    settings: dict[str, Any]
    version: str
    """Of podium."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the table; None is what was not measured, or not often enough."""

    engine: str
    precision: str
    batch: int
    folder: str
    """Of the LoadGen run, relative to the study's; empty where there is none."""
    queries: int = 0
    samples_per_second: float | None = None
    low: float | None = None
    high: float | None = None
    """95 % interval of the rate, from ten slices of the run's time."""
    mean_latency_ns: float | None = None
    p50_ns: float | None = None
    p90_ns: float | None = None
    p99_ns: float | None = None
    scores: dict[str, float] = {}
    difference: dict[str, float] = {}
    """Scores minus the checkpoint's reference accuracy."""
    why: str = ""
    """Why there is no figure: memory that does not suffice, a number format that this engine does not have."""


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The first point once more at the end."""

    engine: str
    precision: str
    batch: int
    folder: str
    samples_per_second: float
    change: float
    """Second rate / first rate - 1."""


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The largest measured batch whose tail latency is within the budget."""

    engine: str
    precision: str
    batch: int
    samples_per_second: float
    latency_ns: float
    by: str
    """p99; mean where a point has too few queries for it."""


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """`study.json`."""

    kind: str
    subject: str
    bare: bool
    weights: str
    profile: str | None
    system: str
    device: str
    threads: int
    seconds: float
    seed: int
    """Of the order of the points."""
    within_ms: float | None
    rows: tuple[Row, ...]
    drift: tuple[Drift, ...]
    best: tuple[Best, ...]
    version: str


POINTS: Final = msgspec.json.Decoder(Identity)


def identity_in(folder: Path) -> Identity | None:
    """Read what a point was measured of; None where there is nothing that can be read."""
    try:
        return read(folder / POINT, POINTS.decode)
    except UnreadableError:
        return None


def save(path: Path, document: msgspec.Struct) -> None:
    """Write a document as a whole."""
    built: Mapping[str, object] = msgspec.to_builtins(document)
    write_json(path, built)


def best_within(rows: Sequence[Row], within_ms: float | None) -> tuple[Best, ...]:
    """Give the largest batch within the budget of each engine and number format; measured points alone count."""
    if within_ms is None:
        return ()
    found: dict[tuple[str, str], Best] = {}
    for row in sorted(rows, key=lambda row: row.batch):
        latency, by = (row.p99_ns, "p99") if row.p99_ns is not None else (row.mean_latency_ns, "mean")
        if latency is not None and row.samples_per_second is not None and latency <= within_ms * 1e6:
            found[row.engine, row.precision] = Best(
                engine=row.engine, precision=row.precision, batch=row.batch, samples_per_second=row.samples_per_second, latency_ns=latency, by=by
            )
    return tuple(found.values())
