"""The records that podium writes beside logs, one dataclass each; their JSON Schemas are in compliance/schemas/.

Written by the harness, read by the judge and by bundles.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from suite.files.layout import written
from suite.rounds import HyperValue


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """`record.json` beside exported weights: where they come from."""

    workload: str
    round: str
    profile: str
    framework: str
    sha256: str
    """suite.files.layout.folder_sha256 of the folder."""
    nonce: str
    """The campaign's; binds every LoadGen run to this training set."""
    seed: int
    run_index: int
    training_log: str
    """Path of the log, relative to the results folder."""
    target_reached: bool
    scores: Mapping[str, float]
    """Of the last evaluation."""
    reference_accuracy: Mapping[str, float]
    """fp32, eager, inference's settings, accuracy set: what every served result must hold 99 % of."""
    settings: Mapping[str, HyperValue]
    version: str
    """Of podium."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecord:
    """What one network of a quantised system was calibrated with; stands in the measurements file."""

    list: str
    names: tuple[str, ...]
    """Every name of the list."""
    samples: tuple[str, ...]
    """The names that were used."""
    sha256: tuple[str, ...]
    """Of each used sample's file, in the same order."""
    touched: tuple[str, ...]
    """Used samples that are in the accuracy set too."""
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Why LoadGen calls a run INVALID, and what to try next."""

    rule: str
    found: str
    knob: str
    """A setting of `--set`."""
    value: float | None
    """The value to try next."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """`run.json` in the folder of a LoadGen run: stamps, settings, verdict."""

    workload: str
    round: str
    profile: str
    division: str
    org: str
    system: str
    scenario: str
    """SingleStream, MultiStream, Server, Offline."""
    mode: str
    """accuracy or performance."""
    framework: str
    engine: str
    input: str
    device: str
    precision: str
    threads: int
    nonce: str
    checkpoint_sha256: str
    sample_count: int
    """Of the accuracy set."""
    settings: Mapping[str, HyperValue]
    command: tuple[str, ...]
    verdict: str
    """LoadGen's word: VALID or INVALID; of an accuracy run, ACCURACY."""
    metric: str
    """latency_ns, samples_per_second, completed_samples_per_second, or the metric's name of an accuracy run."""
    value: float
    ceiling: float | None
    """Samples per second (queries, for Server) of this host with a null engine; None where it was not measured."""
    above_ceiling_share: bool
    """The value is above the share of the ceiling at which the harness is part of what is measured."""
    batches: Mapping[str, float]
    """Of the batches that the workers took: count, mean_size; by_length, 1 where Offline's were sorted by their samples' lengths."""
    hints: tuple[Hint, ...] = field(default_factory=tuple)
    engine_package: str = ""
    """Distribution and version that the engine came from, and the SHA-256 of its module; empty in records from before it was told."""
    version: str


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Write a JSON document whole or not at all: sorted keys, synced, renamed."""
    with written(path) as partial:
        partial.write_text(json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n", "utf-8")


def write_record(path: Path, record: CheckpointRecord | RunRecord) -> None:
    """Write a record as JSON."""
    write_json(path, asdict(record))
