"""The power of one LoadGen run: what its record claims, the readings, and the energy computed from them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.documents.podium.inference import LoadGenRun
from compliance.verdict import Fault
from suite.files.layout import RUN_RECORD, TELEMETRY
from suite.files.untrusted_files import UnreadableError
from suite.loadgen import power_window
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.power_readings import Readings, Work
from suite.records import EnergyRecord

STREAMS: Final = (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoweredRun:
    """A run whose record claims energy, or whose telemetry has power readings."""

    run: LoadGenRun
    told: tuple[EnergyRecord, ...]
    """The energy claimed in run.json."""
    readings: Readings
    """Empty if there is no readable telemetry."""
    window: tuple[int, int] | None
    """LoadGen's time span, in ns of UTC; None if the detail log does not give it."""
    work: Work

    @property
    def telemetry(self) -> Path:
        """Path of the readings."""
        return self.run.folder / TELEMETRY

    @property
    def measured(self) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
        """The energy computed from the readings, and why a channel yields none."""
        return power_readings.records(self.readings, *self.window, self.work) if self.window else ((), ())

    def record_fault(self, found: str, required: str) -> Fault:
        """Build a Fault for run.json."""
        return self.run.fault(RUN_RECORD, found, required)

    def fault(self, found: str, required: str) -> Fault:
        """Build a Fault for the readings."""
        return Fault(file=self.telemetry, found=found, required=required)


def of_run(run: LoadGenRun) -> PoweredRun | None:
    """Build the power document of a run; None if it has neither readings nor claims."""
    told = run.record.energy if run.record else ()
    readings = read(run.folder / TELEMETRY)
    if not told and not readings.tracks:
        return None
    begin_ns, end_ns = (power_window.utc_ns(run.value(key)) for key in ("power_begin", "power_end"))
    counts = run.numbers("result_query_count", "generated_samples_per_query")
    queries, per_query = (int(count) for count in counts or (0, 0))
    return PoweredRun(
        run=run,
        told=told,
        readings=readings,
        window=None if begin_ns is None or end_ns is None else (begin_ns, end_ns),
        work=Work(samples=queries * per_query, queries=queries if run.scenario in STREAMS else None),
    )


def read(path: Path) -> Readings:
    """Read the power channels; empty if the file is missing or damaged, which other rules report."""
    try:
        return power_readings.read(path)
    except UnreadableError:
        return Readings()
