"""The power of one run, served or trained: the readings, and the energy computed from them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from compliance.documents.base import Document
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.documents.measured_study import JudgedStudy
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.logs.finite_numbers import is_finite_number
from compliance.recognition.tree_path import is_file
from suite import events
from suite.files.layout import RUN_RECORD, TELEMETRY_FILE, compute_file_sha256
from suite.files.untrusted_files import UnreadableError
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork, TelemetryReadings
from suite.measurement.run_energy import LoadGenPower, read_loadgen_power
from suite.records import EnergyRecord
from suite.studies.documents import IDLE_TELEMETRY_FILE
from suite.studies.measured import read_idle_power
from suite.units import NS_PER_MS

MIN_TRAINING_READINGS: Final = 60
"""Minimum number of readings of a training run. Source: MLPerf Training power rules: at least 60
readings, at 1 Hz or faster.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPower(Document):
    """A run whose telemetry has power readings, or whose record names some."""

    document_name: ClassVar[str] = "the power of a run"

    telemetry: Path
    """Path of the readings."""
    performance: bool
    """Whether it was timed: false for accuracy runs."""
    energies: tuple[EnergyRecord, ...] = ()
    """Those that its readings give and podium shows; none of a cluster's other nodes."""
    named_sha256: str | None = None
    """SHA-256 of the telemetry that the run's record names; None if no record could."""
    naming_file: str = RUN_RECORD
    """Name of that record: a training's is its log."""
    telemetry_sha256: str = ""
    """That of the telemetry; empty if there is none."""
    readings: TelemetryReadings
    """Empty if there is no readable telemetry."""
    window: tuple[int, int] | None
    """The run's time span, in ns of UTC; None if its log does not give it."""
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
        telemetry=telemetry,
        performance=run.performance,
        energies=power.compute_energy()[0],
        named_sha256=named_sha256,
        telemetry_sha256=hash_telemetry(telemetry),
        readings=power.readings,
        window=power.window,
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
        energies=(),
        window=power_readings.find_idle_window(powered.readings),
        next_ns=powered.window[0],
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
        telemetry=telemetry,
        performance=True,
        energies=read_idle_power(study.folder),
        readings=readings,
        window=power_readings.find_covered_window(readings),
        loaded=False,
    )


def build_training_power(log: TrainingLog, telemetry: Path, node: bool = False) -> RunPower | None:
    """Build the power document of a training run on its first node, or on another `node`, whose
    readings no log names; None if there are no readings, and none are named.
    """
    readings = read_power_or_empty(telemetry)
    named = [] if node else [str(each.value) for each in log.list_records(events.TELEMETRY)]
    if not readings.tracks and not named:
        return None
    sha256 = hash_telemetry(telemetry)
    if not named and not node and log.list_records(events.CHECKPOINT):
        named = [""]  # a log that was finished names its readings
    window = find_training_window(log)
    energies: tuple[EnergyRecord, ...] = ()
    if window and not node:
        work = MeasuredWork(samples=0)
        energies = power_readings.build_energy_records(readings, *window, work)[0]
    return RunPower(
        telemetry=telemetry,
        performance=True,
        energies=energies,
        named_sha256=next((each for each in named if each != sha256), sha256 if named else None),
        naming_file=log.path.name,
        telemetry_sha256=sha256,
        readings=readings,
        window=window,
        min_readings=MIN_TRAINING_READINGS,
    )


def find_training_window(log: TrainingLog) -> tuple[int, int] | None:
    """Return start and stop of a log's clock, ns of UTC; None if it lacks one."""
    times = [
        each.event.time_ms
        for key in (events.RUN_START, events.RUN_STOP)
        if (each := log.find_record(key)) and is_finite_number(each.event.time_ms)
    ]
    if len(times) != 2:
        return None
    return round(times[0] * NS_PER_MS), round(times[1] * NS_PER_MS)


def read_power_or_empty(path: Path) -> TelemetryReadings:
    """Read the power channels; empty if the file is missing or damaged, which other rules
    report.
    """
    try:
        return power_readings.read_power_readings(path)
    except UnreadableError:
        return TelemetryReadings()
