"""Energy of a training run from run_start to its last run_stop, from this node's sampler
readings.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from harness.training.mllog_writer import MllogWriter
from suite import events
from suite.events import TOKEN
from suite.files.layout import compute_file_sha256
from suite.files.untrusted_files import UnreadableError
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork
from suite.records import EnergyRecord

NS_PER_MS = 1_000_000
JOULES_PER_KJ = 1e3


def log_telemetry_digest(log: MllogWriter, telemetry: Path) -> None:
    """Log the SHA-256 of a run's readings, by which an edit of them is found; nothing if no power
    was read.
    """
    try:
        found = power_readings.read_power_readings(telemetry)
    except UnreadableError:
        return
    if found.tracks:
        log.log_point(events.TELEMETRY, compute_file_sha256(telemetry))


def describe_run_energy(log: Path, telemetry: Path) -> Iterator[str]:
    """Yield a finished run's energy, and what could not be measured and why; nothing if no power
    was read.
    """
    energy, reasons = compute_run_energy(log, telemetry) or ((), ())
    for each in energy:
        yield (
            f"energy: {each.joules / JOULES_PER_KJ:,.3f} kJ, {each.average_w:,.2f} W ({each.name},"
            f" {each.grade_description}, scope {' + '.join(each.scope)}){each.edge_error_note}"
        )
    yield from (f"no energy: {reason}" for reason in reasons)


def compute_run_energy(
    log: Path, telemetry: Path
) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]] | None:
    """Compute the energy of a run whose clock has stopped, with the reasons for channels without
    it; None if no power was read.
    """
    try:
        found = power_readings.read_power_readings(telemetry)
    except UnreadableError as error:
        if error.missing:
            return None
        return ((), (f"{telemetry.name}: {error.reason}",))
    times = read_run_clock(log)
    if not (found.tracks or found.absent) or times is None:
        return None
    return power_readings.build_energy_records(found, *times, MeasuredWork(samples=0))


def read_run_clock(log: Path) -> tuple[int, int] | None:
    """Return start and stop of a log's clock, in ns of UTC; None if it has not stopped.

    A resumed run has a `run_stop` for each interruption; its clock continues until the last.
    """
    found = [json.loads(line.removeprefix(TOKEN)) for line in log.read_text("utf-8").splitlines()]
    starts, stops = (
        [event["time_ms"] * NS_PER_MS for event in found if event["key"] == key]
        for key in (events.RUN_START, events.RUN_STOP)
    )
    if starts and stops:
        return (starts[0], stops[-1])
    return None
