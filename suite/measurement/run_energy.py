"""The energy of a LoadGen run, from the readings beside it and LoadGen's own window.

No file repeats it: harness, scores and judge compute it by this module whenever they show it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.files.layout import TELEMETRY_FILE, TOKEN_RECORD_FILE
from suite.files.npy_files import map_npy_array
from suite.files.untrusted_files import UnreadableError
from suite.loadgen import power_window
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_RECORD_FIELDS
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork, TelemetryReadings
from suite.records import EnergyRecord

PER_QUERY_SCENARIOS: Final = (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)
NO_WINDOW_REASON: Final = "LoadGen's detail log has no power_begin and power_end"
COUNT_LIMIT: Final = 1 << 63
"""LoadGen counts in integers of 64 bits."""
FindValue = Callable[[str], object]
"""Returns the value of a key of the detail log; None if the log has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenPower:
    """The power readings of a LoadGen run, and what it did meanwhile."""

    readings: TelemetryReadings
    window: tuple[int, int] | None
    """From the first query to the last completion, ns of UTC; None if LoadGen's log does not give
    it.
    """
    work: MeasuredWork

    def compute_energy(self) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
        """Compute the energy by each channel, and why a channel gives none."""
        if self.window is None:
            return (), (NO_WINDOW_REASON,)
        return power_readings.build_energy_records(self.readings, *self.window, self.work)

    def compute_idle_energy(self) -> tuple[EnergyRecord, ...]:
        """Compute the energy of the idle machine with which the readings begin; empty if they do
        not give it.
        """
        window = power_readings.find_idle_window(self.readings)
        if window is None:
            return ()
        work = MeasuredWork(samples=0)
        return power_readings.build_energy_records(self.readings, *window, work)[0]


def read_loadgen_power(
    folder: Path, scenario: Scenario | None, find_value: FindValue
) -> LoadGenPower:
    """Read the power of a run, whose folder and detail log are given; UnreadableError if its
    telemetry is missing or damaged.
    """
    readings = power_readings.read_power_readings(folder / TELEMETRY_FILE)
    begin_ns, end_ns = (
        power_window.parse_power_time_ns(find_value(key)) for key in ("power_begin", "power_end")
    )
    return LoadGenPower(
        readings=readings,
        window=None if begin_ns is None or end_ns is None else (begin_ns, end_ns),
        work=count_measured_work(folder, scenario, find_value),
    )


def count_measured_work(
    folder: Path, scenario: Scenario | None, find_value: FindValue
) -> MeasuredWork:
    """Count what a run did, by LoadGen's log and the record of its tokens."""
    queries, per_query = (
        parse_logged_count(find_value(key))
        for key in ("result_query_count", "generated_samples_per_query")
    )
    return MeasuredWork(
        samples=queries * per_query,
        queries=queries if scenario in PER_QUERY_SCENARIOS else None,
        tokens=count_recorded_tokens(folder),
    )


def parse_logged_count(value: object) -> int:
    """Return a count of the detail log; 0 for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value < COUNT_LIMIT else 0


def count_recorded_tokens(folder: Path) -> int | None:
    """Return the tokens of a run's answers; None without their record, or if it is damaged, or
    full and may lack answers.
    """
    try:
        rows = map_npy_array(folder / TOKEN_RECORD_FILE)
    except UnreadableError:
        return None
    columns = len(TOKEN_RECORD_FIELDS)
    if rows.dtype != "<i8" or rows.ndim != 2 or rows.shape[1] != columns:
        return None
    counts = rows[:, TOKEN_RECORD_FIELDS.index("tokens")]
    return int(counts.sum()) if len(rows) < MAX_QUERY_RECORD_ROWS else None
