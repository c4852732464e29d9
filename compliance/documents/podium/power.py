"""The power of one run, served or trained: what its record claims, the readings, and the energy
computed from them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.documents.podium.inference import LoadGenRun
from compliance.documents.podium.study import StudyFile, StudyPoint
from compliance.documents.podium.training import TrainingLog, finite
from compliance.verdict import Fault, Severity
from suite import events
from suite.files.layout import RUN_RECORD, TELEMETRY
from suite.files.untrusted_files import UnreadableError
from suite.loadgen import power_window
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.power_readings import Readings, Work
from suite.records import EnergyRecord
from suite.studies.documents import IDLE, STUDY, Row

STREAMS: Final = (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)
NS_PER_MS: Final = 1_000_000
TRAINING_READINGS: Final = 60
"""Fewest readings of a training run. Source: MLPerf Training power rules: at least 60 readings, at
1 Hz or faster.
"""
REFUSED: Final = re.compile(r"(.*): the counter jumped by \d+ uJ, .*")
"""Sentence of an earlier version about a counter that it refused: it held growth between any two
readings against the limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoweredRun:
    """A run whose record claims energy, or whose telemetry has power readings."""

    record: Path
    """The file that claims energy: run.json, or the training log."""
    line: int | None = None
    """Line of the claim in a training log."""
    telemetry: Path
    """Path of the readings."""
    performance: bool
    """Whether it was timed: false for accuracy runs."""
    told: tuple[EnergyRecord, ...] | None
    """The energy claimed; None if the record does not tell of energy at all, as on a cluster's
    other nodes and in older logs.
    """
    malformed: str = ""
    """What is wrong with a claim that is no list of energies."""
    readings: Readings
    """Empty if there is no readable telemetry."""
    window: tuple[int, int] | None
    """The run's time span, in ns of UTC; None if its log does not give it."""
    work: Work
    silent: bool = False
    """Whether a log that could tell energy does not, as logs of earlier versions."""
    next_ns: int | None = None
    """When the run began, ns of UTC, before which an idle machine was read; None for others."""
    loaded: bool = True
    """Whether the machine was at work; an idle one may draw the same all the time."""
    fewest: int = 0
    """Readings that it needs."""
    reasons: tuple[str, ...] = ()
    """Why the record has no energy of a channel."""

    @property
    def claims(self) -> tuple[EnergyRecord, ...]:
        """The energies claimed; empty if there are none."""
        return self.told or ()

    @property
    def measured(self) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
        """The energy computed from the readings, and why a channel yields none."""
        refused = refused_before(self.reasons)
        readings = replace(
            self.readings,
            tracks={
                name: track for name, track in self.readings.tracks.items() if name not in refused
            },
        )
        return (
            power_readings.records(readings, *self.window, self.work) if self.window else ((), ())
        )

    def record_fault(self, found: str, required: str) -> Fault:
        """Build a Fault for the record."""
        return Fault(file=self.record, line=self.line, found=found, required=required)

    def fault(self, found: str, required: str, *, odd: bool = False) -> Fault:
        """Build a Fault for the readings; a warning if they are only odd."""
        return Fault(
            file=self.telemetry,
            found=found,
            required=required,
            severity=Severity.WARNING if odd else None,
        )


def of_run(run: LoadGenRun) -> PoweredRun | None:
    """Build the power document of a LoadGen run; None if it has neither readings nor claims."""
    told = run.record.energy if run.record else ()
    readings = read(run.folder / TELEMETRY)
    if not told and not readings.tracks and not (run.record and run.record.idle):
        return None
    begin_ns, end_ns = (power_window.utc_ns(run.value(key)) for key in ("power_begin", "power_end"))
    counts = run.numbers("result_query_count", "generated_samples_per_query")
    queries, per_query = (int(count) for count in counts or (0, 0))
    return PoweredRun(
        record=run.folder / RUN_RECORD,
        telemetry=run.folder / TELEMETRY,
        performance=run.performance,
        told=told,
        readings=readings,
        window=None if begin_ns is None or end_ns is None else (begin_ns, end_ns),
        work=Work(
            samples=queries * per_query, queries=queries if run.scenario in STREAMS else None
        ),
        reasons=run.record.no_energy if run.record else (),
    )


def of_idle_before(run: LoadGenRun, powered: PoweredRun) -> PoweredRun | None:
    """Build the power document of the idle machine before a LoadGen run, from the run's own; None
    if its record does not tell of it.
    """
    if run.record is None or not run.record.idle:
        return None
    window = power_readings.before_the_run(powered.readings)
    return replace(
        powered,
        told=run.record.idle,
        window=window,
        next_ns=powered.window and powered.window[0],
        work=Work(samples=0),
        loaded=False,
    )


def of_point(point: StudyPoint, table: Path) -> PoweredRun | None:
    """Build the power document of a study's point; None if its row is a repeated one, or has
    neither readings nor claims.
    """
    if not isinstance(point.told, Row):
        return None
    readings = read(point.folder / TELEMETRY)
    if not point.told.energy and not readings.tracks:
        return None
    begin_ns, end_ns = (
        power_window.utc_ns(point.value(key)) for key in ("power_begin", "power_end")
    )
    queries, per_query = (
        int(point.number(key) or 0) for key in ("result_query_count", "generated_samples_per_query")
    )
    return PoweredRun(
        record=table,
        telemetry=point.folder / TELEMETRY,
        performance=True,
        told=point.told.energy,
        readings=readings,
        window=None if begin_ns is None or end_ns is None else (begin_ns, end_ns),
        work=Work(samples=queries * per_query, queries=queries),
        reasons=point.told.no_energy,
    )


def of_idle(study: StudyFile) -> PoweredRun | None:
    """Build the power document of a study's idle machine; None if it has neither readings nor
    claims.
    """
    telemetry = study.folder / IDLE
    readings = read(telemetry)
    if not study.study.idle and not readings.tracks:
        return None
    return PoweredRun(
        record=study.folder / STUDY,
        telemetry=telemetry,
        performance=True,
        told=study.study.idle,
        readings=readings,
        window=power_readings.covered(readings),
        loaded=False,
        work=Work(samples=0),
    )


def of_training(log: TrainingLog, telemetry: Path, node: bool = False) -> PoweredRun | None:
    """Build the power document of a training run on its first node, or on another `node`; None if
    it has neither readings nor claims.
    """
    record = None if node else log.first(events.ENERGY)
    told, malformed = (
        claimed([each.value for each in log.all(events.ENERGY)]) if record else (None, "")
    )
    readings = read(telemetry)
    if record is None and not readings.tracks:
        return None
    reasons = record.event.metadata.get("no_energy") if record else None
    times = [
        each.event.time_ms
        for key in (events.RUN_START, events.RUN_STOP)
        if (each := log.first(key)) and finite(each.event.time_ms)
    ]
    return PoweredRun(
        record=log.path,
        line=record.line if record else None,
        telemetry=telemetry,
        performance=True,
        told=told,
        silent=record is None and not node,
        malformed=malformed,
        readings=readings,
        window=(
            (round(times[0] * NS_PER_MS), round(times[1] * NS_PER_MS)) if len(times) == 2 else None
        ),
        work=Work(samples=0),
        fewest=TRAINING_READINGS,
        reasons=tuple(str(each) for each in reasons) if isinstance(reasons, list) else (),
    )


def claimed(values: Sequence[Any]) -> tuple[tuple[EnergyRecord, ...], str]:
    """Parse the energies in a log's only energy event, and say what is wrong with others."""
    if len(values) > 1:
        return (), f"{len(values)} events"
    try:
        return msgspec.convert(values[0], tuple[EnergyRecord, ...]), ""
    except msgspec.ValidationError as error:
        return (), str(error)


def read(path: Path) -> Readings:
    """Read the power channels; empty if the file is missing or damaged, which other rules
    report.
    """
    try:
        return power_readings.read(path)
    except UnreadableError:
        return Readings()


def refused_before(reasons: Iterable[str]) -> frozenset[str]:
    """Return the names of the channels that a record refuses in the words of an earlier version."""
    return frozenset(match[1] for reason in reasons if (match := REFUSED.fullmatch(reason)))
