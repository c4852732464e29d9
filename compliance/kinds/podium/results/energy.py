"""The energy of the runs of a result, with grade and scope."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from compliance.kinds.podium.documents.training import read_training_log
from compliance.logs.log_index import LogIndex
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import SourceFile
from compliance.recognition.tree_path import TRAINING_LOG_PATTERN, TRAINING_TELEMETRY_PATTERN
from suite import events, registry
from suite.files.layout import DETAIL_LOG
from suite.files.untrusted_files import UnreadableError
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.mlperf_power.checks import is_valid_power_session
from suite.measurement.mlperf_power.session import find_imported_session
from suite.measurement.power_readings import MeasuredWork
from suite.measurement.run_energy import read_loadgen_power
from suite.records import EnergyRecord

NS_PER_MS = 1_000_000


def read_training_energies(
    logs: Sequence[Path], telemetry: Iterable[Path]
) -> tuple[tuple[EnergyRecord, ...], ...]:
    """Return the energies of each run of a set. Only the first of several nodes counts."""
    files = {
        parse_training_log_number(path): path for path in telemetry if "_node" not in path.name
    }
    return tuple(
        read_training_run_energy(log, files.get(parse_training_log_number(log))) for log in logs
    )


def read_served_energy(folder: Path, scenario: Scenario) -> tuple[EnergyRecord, ...]:
    """Return the energy of a LoadGen run by its readings and by an MLPerf Power session, if the
    session is valid; the judge reports invalid ones.
    """
    session = find_imported_session(folder)
    imported = session.energy[0] if session and is_valid_power_session(session) else ()
    return (*read_loadgen_energy(folder, scenario), *imported)


def read_loadgen_energy(folder: Path, scenario: Scenario) -> tuple[EnergyRecord, ...]:
    """Return the energy of a LoadGen run by its readings; empty if they give none."""
    index = LogIndex(mllog_lines.read_mllog_records(SourceFile(folder / DETAIL_LOG)))
    try:
        return read_loadgen_power(folder, scenario, index.find_value).compute_energy()[0]
    except UnreadableError:
        return ()


def parse_training_log_number(path: Path) -> int | None:
    """Return the number of a log, or of its telemetry."""
    match = TRAINING_LOG_PATTERN.fullmatch(path.name) or TRAINING_TELEMETRY_PATTERN.fullmatch(
        path.name
    )
    return int(match[1]) if match else None


def read_training_run_energy(log: Path, telemetry: Path | None) -> tuple[EnergyRecord, ...]:
    """Return the energy of one run from run_start to run_stop; empty if no power was read, or only
    in a rehearsal.
    """
    found = read_training_log(log, registry.load_round(), None)
    records = [found.find_record(key) for key in (events.RUN_START, events.RUN_STOP)]
    times = [record.event.time_ms for record in records if record]
    if telemetry is None or len(times) < 2:
        return ()
    try:
        readings = power_readings.read_power_readings(telemetry)
    except UnreadableError:
        return ()
    begin_ns, end_ns = (round(time * NS_PER_MS) for time in times)
    if readings.rehearsal:
        return ()
    work = MeasuredWork(samples=0)
    return power_readings.build_energy_records(readings, begin_ns, end_ns, work)[0]
