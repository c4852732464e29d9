"""The energy of a finished LoadGen run: what is kept of it, and what is said."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.files.layout import TELEMETRY_FILE, compute_file_sha256
from suite.files.untrusted_files import UnreadableError
from suite.human_numbers import format_whole_digits
from suite.loadgen.detail_log import DetailLog
from suite.loadgen.scenario import Scenario
from suite.measurement.run_energy import read_loadgen_power
from suite.measurement.widest import select_widest_energies
from suite.records import EnergyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEnergy:
    """Measured energy of a run."""

    energy: tuple[EnergyRecord, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why a channel gave no energy."""
    idle: tuple[EnergyRecord, ...] = ()
    """Energy of the idle machine before the run, if it was read."""
    telemetry_sha256: str = ""
    """SHA-256 of the file of readings; empty if no power was read."""


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
        found = read_loadgen_power(folder, scenario, detail_log.values.get)
    except UnreadableError as error:
        damage = f"{TELEMETRY_FILE}: {error.reason}"
        return MeasuredEnergy(reasons=lost if error.missing else (damage,))
    if not (found.readings.tracks or found.readings.absent):
        return NO_ENERGY
    energy, reasons = found.compute_energy()
    return MeasuredEnergy(
        energy=energy,
        reasons=reasons,
        idle=found.compute_idle_energy() if idle else (),
        telemetry_sha256=(
            compute_file_sha256(folder / TELEMETRY_FILE) if found.readings.tracks else ""
        ),
    )


def describe_measured_energy(measured: MeasuredEnergy) -> Iterator[str]:
    """Yield what was measured, and what was not and why."""
    for each in measured.energy:
        rate, token = "", ""
        if each.samples_per_s_per_w:
            rate = f", {format_whole_digits(each.samples_per_s_per_w, 3)} samples/s/W"
        if each.per_token_j:
            token = f", {format_whole_digits(each.per_token_j, 3)} J/token"
        yield (
            f"energy: {each.joules:,.1f} J, {each.average_w:,.2f} W{rate}{token} ({each.name},"
            f" {each.grade_description}, scope {' + '.join(each.scope)}){each.edge_error_note}"
        )
    for idle in select_widest_energies(measured.idle)[:1]:
        yield (
            f"idle: {idle.average_w:,.2f} W ({idle.name}, {idle.grade_description}), not subtracted"
        )
    yield from (f"no energy: {reason}" for reason in measured.reasons)
