"""The power of one run, served or trained: the readings, the energy computed from them, and what a
training log or a study's table states of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import Document
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.documents.measured_study import JudgedStudy
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.logs.finite_numbers import is_finite_number
from compliance.recognition.tree_path import is_file
from compliance.verdict import Fault
from suite import events
from suite.files.layout import TELEMETRY_FILE, compute_file_sha256
from suite.files.untrusted_files import UnreadableError
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork, TelemetryReadings
from suite.measurement.run_energy import LoadGenPower, read_loadgen_power
from suite.records import EnergyRecord
from suite.studies.documents import IDLE_TELEMETRY_FILE, STUDY_FILE
from suite.studies.measured import read_idle_power
from suite.units import NS_PER_MS

MIN_TRAINING_READINGS: Final = 60
"""Minimum number of readings of a training run. Source: MLPerf Training power rules: at least 60
readings, at 1 Hz or faster.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPower(Document):
    """A run that has an energy, or whose telemetry has power readings."""

    document_name: ClassVar[str] = "the power of a run"

    record: Path
    """The file that states its energy: the training log, or a study's table; of a LoadGen run that
    of the readings.
    """
    line: int | None = None
    """Line of the energy in a training log."""
    telemetry: Path
    """Path of the readings."""
    performance: bool
    """Whether it was timed: false for accuracy runs."""
    claims: tuple[EnergyRecord, ...] = ()
    """The energies that podium shows of it: those that its record states or, of a LoadGen run,
    those that its readings give.
    """
    is_stated: bool = False
    """Whether its record states energies: not of LoadGen runs, a cluster's other nodes, or logs
    without a word of it.
    """
    malformed: str = ""
    """The problem with a record that states no list of energies."""
    named_sha256: str | None = None
    """SHA-256 of the telemetry that a LoadGen run's record names; None if no record could."""
    telemetry_sha256: str = ""
    """That of the telemetry; empty if there is none."""
    readings: TelemetryReadings
    """Empty if there is no readable telemetry."""
    window: tuple[int, int] | None
    """The run's time span, in ns of UTC; None if its log does not give it."""
    work: MeasuredWork
    silent: bool = False
    """Whether a log lacks energy although it could contain it, as in logs of earlier versions."""
    next_ns: int | None = None
    """Start of the run (ns of UTC), before which the idle machine was read; None for others."""
    loaded: bool = True
    """Whether the machine was loaded; an idle one may draw constant power."""
    min_readings: int = 0
    """Minimum number of readings."""

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.telemetry

    @property
    def measured(self) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
        """Return the energy computed from the readings, and why a channel yields none."""
        return (
            power_readings.build_energy_records(self.readings, *self.window, self.work)
            if self.window
            else ((), ())
        )

    def build_record_fault(self, found: str, required: str) -> Fault:
        """Build a Fault for the record."""
        return self.build_fault(found, required, self.line, file=self.record)


def build_run_power(run: LoadGenRun) -> RunPower | None:
    """Build the power document of a LoadGen run; None if it has no readings, and its record names
    none.
    """
    power = read_loadgen_power_or_empty(run)
    named_sha256 = run.record.telemetry_sha256 if run.record else None
    if not power.readings.tracks and not named_sha256:
        return None
    telemetry = run.folder / TELEMETRY_FILE
    return RunPower(
        record=telemetry,
        telemetry=telemetry,
        performance=run.performance,
        claims=power.compute_energy()[0],
        named_sha256=named_sha256,
        telemetry_sha256=hash_telemetry(telemetry),
        readings=power.readings,
        window=power.window,
        work=power.work,
    )


def hash_telemetry(path: Path) -> str:
    """Return the SHA-256 of a telemetry file; empty if it is missing or unreadable."""
    try:
        return compute_file_sha256(path) if is_file(path) else ""
    except OSError:
        return ""


def read_loadgen_power_or_empty(run: LoadGenRun) -> LoadGenPower:
    """Read the power of a LoadGen run; without readings if its telemetry is missing or damaged,
    which other rules report.
    """
    try:
        return read_loadgen_power(run.folder, run.scenario, run.find_value)
    except UnreadableError:
        return LoadGenPower(readings=TelemetryReadings(), window=None, work=MeasuredWork(samples=0))


def build_idle_power_before_run(run: LoadGenRun, powered: RunPower) -> RunPower | None:
    """Build the power document of the idle machine before a LoadGen run, from the run's own; None
    if it was not read.
    """
    if run.record is None or not run.record.began_idle or powered.window is None:
        return None
    return replace(
        powered,
        claims=(),
        window=power_readings.find_idle_window(powered.readings),
        next_ns=powered.window[0],
        work=MeasuredWork(samples=0),
        loaded=False,
    )


def build_study_idle_power(study: JudgedStudy) -> RunPower | None:
    """Build the power document of a study's idle machine; None if its power was not read. Nothing
    states it but the readings.
    """
    telemetry = study.folder / IDLE_TELEMETRY_FILE
    readings = read_power_or_empty(telemetry)
    if not readings.tracks:
        return None
    return RunPower(
        record=study.folder / STUDY_FILE,
        telemetry=telemetry,
        performance=True,
        claims=read_idle_power(study.folder),
        readings=readings,
        window=power_readings.find_covered_window(readings),
        loaded=False,
        work=MeasuredWork(samples=0),
    )


def build_training_power(log: TrainingLog, telemetry: Path, node: bool = False) -> RunPower | None:
    """Build the power document of a training run on its first node, or on another `node`; None if
    it has neither readings nor claims.
    """
    record = None if node else log.find_record(events.ENERGY)
    claims, malformed = (
        parse_energy_claims([each.value for each in log.list_records(events.ENERGY)])
        if record
        else ((), "")
    )
    readings = read_power_or_empty(telemetry)
    if record is None and not readings.tracks:
        return None
    times = [
        each.event.time_ms
        for key in (events.RUN_START, events.RUN_STOP)
        if (each := log.find_record(key)) and is_finite_number(each.event.time_ms)
    ]
    return RunPower(
        record=log.path,
        line=record.line if record else None,
        telemetry=telemetry,
        performance=True,
        claims=claims,
        is_stated=record is not None,
        silent=record is None and not node,
        malformed=malformed,
        readings=readings,
        window=(
            (round(times[0] * NS_PER_MS), round(times[1] * NS_PER_MS)) if len(times) == 2 else None
        ),
        work=MeasuredWork(samples=0),
        min_readings=MIN_TRAINING_READINGS,
    )


def parse_energy_claims(values: Sequence[Any]) -> tuple[tuple[EnergyRecord, ...], str]:
    """Parse the energies in a log's only energy event, and describe the problem with invalid
    ones.
    """
    if len(values) > 1:
        return (), f"{len(values)} events"
    try:
        return msgspec.convert(values[0], tuple[EnergyRecord, ...]), ""
    except msgspec.ValidationError as error:
        return (), str(error)


def read_power_or_empty(path: Path) -> TelemetryReadings:
    """Read the power channels; empty if the file is missing or damaged, which other rules
    report.
    """
    try:
        return power_readings.read_power_readings(path)
    except UnreadableError:
        return TelemetryReadings()
