"""The power of one run, served or trained: what its record claims, the readings, and the energy
computed from them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import Document
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.documents.study import StudyFile, StudyPoint
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.logs.finite_numbers import is_finite_number
from compliance.verdict import Fault
from suite import events
from suite.files.layout import RUN_RECORD, TELEMETRY_FILE
from suite.files.untrusted_files import UnreadableError
from suite.loadgen import power_window
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork, TelemetryReadings
from suite.records import EnergyRecord
from suite.studies.documents import IDLE_TELEMETRY_FILE, STUDY_FILE, StudyRow
from suite.units import NS_PER_MS

STREAM_SCENARIOS: Final = (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)
MIN_TRAINING_READINGS: Final = 60
"""Minimum number of readings of a training run. Source: MLPerf Training power rules: at least 60
readings, at 1 Hz or faster.
"""
REFUSED_COUNTER_PATTERN: Final = re.compile(r"(.*): the counter jumped by \d+ uJ, .*")
"""Sentence of an earlier version about a counter that it rejected: it compared the growth between
any two readings with the limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPower(Document):
    """A run whose record claims energy, or whose telemetry has power readings."""

    document_name: ClassVar[str] = "the power of a run"

    record: Path
    """The file that claims energy: run.json, or the training log."""
    line: int | None = None
    """Line of the claim in a training log."""
    telemetry: Path
    """Path of the readings."""
    performance: bool
    """Whether it was timed: false for accuracy runs."""
    claimed_energy: tuple[EnergyRecord, ...] | None
    """The claimed energy; None if the record has no energy field, as on a cluster's other nodes and
    in older logs.
    """
    malformed: str = ""
    """The problem with a claim that is not a list of energies."""
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
    reasons: tuple[str, ...] = ()
    """Why the record has no energy for a channel."""

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.telemetry

    @property
    def claims(self) -> tuple[EnergyRecord, ...]:
        """Return the claimed energies; empty if there are none."""
        return self.claimed_energy or ()

    @property
    def measured(self) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
        """Return the energy computed from the readings, and why a channel yields none."""
        refused = parse_refused_channels(self.reasons)
        readings = replace(
            self.readings,
            tracks={
                name: track for name, track in self.readings.tracks.items() if name not in refused
            },
        )
        return (
            power_readings.build_energy_records(readings, *self.window, self.work)
            if self.window
            else ((), ())
        )

    def build_record_fault(self, found: str, required: str) -> Fault:
        """Build a Fault for the record."""
        return self.build_fault(found, required, self.line, file=self.record)


def build_run_power(run: LoadGenRun) -> RunPower | None:
    """Build the power document of a LoadGen run; None if it has neither readings nor claims."""
    claims = run.record.energy if run.record else ()
    readings = read_power_or_empty(run.folder / TELEMETRY_FILE)
    if not claims and not readings.tracks and not (run.record and run.record.idle):
        return None
    begin_ns, end_ns = (
        power_window.parse_power_time_ns(run.find_value(key))
        for key in ("power_begin", "power_end")
    )
    counts = run.find_numbers("result_query_count", "generated_samples_per_query")
    queries, per_query = (int(count) for count in counts or (0, 0))
    return RunPower(
        record=run.folder / RUN_RECORD,
        telemetry=run.folder / TELEMETRY_FILE,
        performance=run.performance,
        claimed_energy=claims,
        readings=readings,
        window=None if begin_ns is None or end_ns is None else (begin_ns, end_ns),
        work=MeasuredWork(
            samples=queries * per_query,
            queries=queries if run.scenario in STREAM_SCENARIOS else None,
            tokens=None if run.tokens is None else run.tokens.total,
        ),
        reasons=run.record.no_energy if run.record else (),
    )


def build_idle_power_before_run(run: LoadGenRun, powered: RunPower) -> RunPower | None:
    """Build the power document of the idle machine before a LoadGen run, from the run's own; None
    if its record has none.
    """
    if run.record is None or not run.record.idle:
        return None
    window = power_readings.find_idle_window(powered.readings)
    return replace(
        powered,
        claimed_energy=run.record.idle,
        window=window,
        next_ns=powered.window and powered.window[0],
        work=MeasuredWork(samples=0),
        loaded=False,
    )


def build_point_power(point: StudyPoint, table: Path) -> RunPower | None:
    """Build the power document of a study's point; None if its row is a repeated one, or has
    neither readings nor claims.
    """
    if not isinstance(point.table_row, StudyRow):
        return None
    readings = read_power_or_empty(point.folder / TELEMETRY_FILE)
    if not point.table_row.energy and not readings.tracks:
        return None
    begin_ns, end_ns = (
        power_window.parse_power_time_ns(point.find_value(key))
        for key in ("power_begin", "power_end")
    )
    queries, per_query = (
        int(point.find_positive_number(key) or 0)
        for key in ("result_query_count", "generated_samples_per_query")
    )
    return RunPower(
        record=table,
        telemetry=point.folder / TELEMETRY_FILE,
        performance=True,
        claimed_energy=point.table_row.energy,
        readings=readings,
        window=None if begin_ns is None or end_ns is None else (begin_ns, end_ns),
        work=MeasuredWork(samples=queries * per_query, queries=queries, tokens=point.tokens),
        reasons=point.table_row.no_energy,
    )


def build_study_idle_power(study: StudyFile) -> RunPower | None:
    """Build the power document of a study's idle machine; None if it has neither readings nor
    claims.
    """
    telemetry = study.folder / IDLE_TELEMETRY_FILE
    readings = read_power_or_empty(telemetry)
    if not study.study.idle and not readings.tracks:
        return None
    return RunPower(
        record=study.folder / STUDY_FILE,
        telemetry=telemetry,
        performance=True,
        claimed_energy=study.study.idle,
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
        else (None, "")
    )
    readings = read_power_or_empty(telemetry)
    if record is None and not readings.tracks:
        return None
    reasons = record.event.metadata.get("no_energy") if record else None
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
        claimed_energy=claims,
        silent=record is None and not node,
        malformed=malformed,
        readings=readings,
        window=(
            (round(times[0] * NS_PER_MS), round(times[1] * NS_PER_MS)) if len(times) == 2 else None
        ),
        work=MeasuredWork(samples=0),
        min_readings=MIN_TRAINING_READINGS,
        reasons=tuple(str(each) for each in reasons) if isinstance(reasons, list) else (),
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


def parse_refused_channels(reasons: Iterable[str]) -> frozenset[str]:
    """Return the names of the channels that a record rejects in the words of an earlier version."""
    return frozenset(
        match[1] for reason in reasons if (match := REFUSED_COUNTER_PATTERN.fullmatch(reason))
    )
