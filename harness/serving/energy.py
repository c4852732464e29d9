"""Energy of a performance run, computed from LoadGen's window and the sampler's readings with the
arithmetic that the judge repeats.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.files.layout import TELEMETRY_FILE, TOKEN_RECORD_FILE
from suite.files.npy_files import map_npy_array
from suite.files.untrusted_files import UnreadableError
from suite.loadgen import power_window
from suite.loadgen.detail_log import DetailLog
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_RECORD_FIELDS
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork
from suite.measurement.widest import select_widest_energies
from suite.records import EnergyRecord

PER_QUERY_SCENARIOS: Final = (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEnergy:
    """Measured energy of a run."""

    energy: tuple[EnergyRecord, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why a channel gave no energy."""
    idle: tuple[EnergyRecord, ...] = ()
    """Energy of the idle machine before the run, if it was read."""


NO_ENERGY: Final = MeasuredEnergy()
"""Of a run whose power was not read."""


def compute_loadgen_energy(
    folder: Path,
    scenario: Scenario,
    detail_log: DetailLog,
    lost: tuple[str, ...] = (),
    idle: bool = False,
) -> MeasuredEnergy:
    """Compute a run's energy; faulty readings void the energy, not the run.

    `lost`: why there are no readings, if some were asked for. `idle`: the readings begin with the
    idle machine.
    """
    try:
        found = power_readings.read_power_readings(folder / TELEMETRY_FILE)
    except UnreadableError as error:
        return (
            MeasuredEnergy(reasons=lost)
            if error.missing
            else MeasuredEnergy(reasons=(f"{TELEMETRY_FILE}: {error.reason}",))
        )
    if not (found.tracks or found.absent):
        return MeasuredEnergy()
    begin_ns, end_ns = (
        power_window.parse_power_time_ns(detail_log.values.get(key))
        for key in ("power_begin", "power_end")
    )
    if begin_ns is None or end_ns is None:
        return MeasuredEnergy(reasons=("LoadGen's detail log has no power_begin and power_end",))
    queries = int(detail_log.require_number("result_query_count"))
    per_query = int(detail_log.require_number("generated_samples_per_query"))
    work = MeasuredWork(
        samples=queries * per_query,
        queries=queries if scenario in PER_QUERY_SCENARIOS else None,
        tokens=count_recorded_tokens(folder),
    )
    energy, reasons = power_readings.build_energy_records(found, begin_ns, end_ns, work)
    idle_window = power_readings.find_idle_window(found) if idle else None
    return MeasuredEnergy(
        energy=energy,
        reasons=reasons,
        idle=(
            power_readings.build_energy_records(found, *idle_window, MeasuredWork(samples=0))[0]
            if idle_window
            else ()
        ),
    )


def count_recorded_tokens(folder: Path) -> int | None:
    """Return the tokens of a run's answers; None without their record, or if it is full and may
    lack answers.
    """
    try:
        rows = map_npy_array(folder / TOKEN_RECORD_FILE)
    except UnreadableError:
        return None
    column = TOKEN_RECORD_FIELDS.index("tokens")
    return int(rows[:, column].sum()) if len(rows) < MAX_QUERY_RECORD_ROWS else None


def describe_measured_energy(measured: MeasuredEnergy) -> Iterator[str]:
    """Yield what was measured, and what was not and why."""
    for each in measured.energy:
        rate = f", {each.samples_per_s_per_w:,.3g} samples/s/W" if each.samples_per_s_per_w else ""
        token = f", {each.per_token_j:,.3g} J/token" if each.per_token_j else ""
        yield (
            f"energy: {each.joules:,.1f} J, {each.average_w:,.2f} W{rate}{token} ({each.name},"
            f" {each.grade_description}, scope {' + '.join(each.scope)}){each.edge_error_note}"
        )
    for idle in select_widest_energies(measured.idle)[:1]:
        yield (
            f"idle: {idle.average_w:,.2f} W ({idle.name}, {idle.grade_description}), not subtracted"
        )
    yield from (f"no energy: {reason}" for reason in measured.reasons)
