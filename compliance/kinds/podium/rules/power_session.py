"""Check sessions of MLPerf Power: the official workflow's files prove that an accepted analyzer
measured this run, and that the files are unmodified.
"""

from collections.abc import Iterator

from compliance.kinds.podium.documents.power_session import MeasuredSession
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.measurement.mlperf_power import checks


@rule("power.session", MeasuredSession, About.SCORE)
def identity(measured: MeasuredSession) -> Iterator[Fault]:
    """Client and server logs belong to the same session: UUIDs, name, messages and version agree,
    and the server was not in debug mode.

    Source: mlcommons/power-dev, compliance/check.py: uuid_check, session_name_check,
    messages_check, debug_check.
    Advice: import the session as the workflow left it; do not combine two sessions.
    """
    yield from measured.find_faults(checks.check_session_identity)


@rule("power.session_files", MeasuredSession, About.SCORE)
def files(measured: MeasuredSession) -> Iterator[Fault]:
    """Every file of the session has the hash that client and server recorded, and the measured
    run's logs are this run's own.

    Source: mlcommons/power-dev, compliance/check.py: results_check; MLPerf Power rules: power and
    performance come from one run.
    Advice: import the session of this very run: podium power import SESSION RUN_FOLDER.
    """
    yield from measured.find_faults(checks.check_session_files)


@rule("power.session_phases", MeasuredSession, About.SCORE)
def phases(measured: MeasuredSession) -> Iterator[Fault]:
    """Client and server passed each step within 500 ms, LoadGen's run is within the testing phase,
    and ranging took about as long.

    Source: mlcommons/power-dev, compliance/check.py: phases_check, without its tolerance of an
    hour; more than 5 % shorter than ranging is a warning.
    Advice: set both clocks by NTP (power_client --ntp) and measure again.
    """
    yield from measured.find_faults(checks.check_session_phases)


@rule("power.session_device", MeasuredSession, About.SCORE)
def device(measured: MeasuredSession) -> Iterator[Fault]:
    """MLPerf accepts the analyzer. It was read every second, and its uncertainty was monitored from
    before ranging and was at most 1 % during the run.

    Source: mlcommons/power-dev, compliance/check.py: ptd_messages_check, check_ptd_logs,
    check_ptd_config; here a warning of the daemon counts during the whole run, not only 500 s after
    its start.
    Advice: measure again with an accepted analyzer in a fixed range.
    """
    yield from measured.find_faults(checks.check_power_analyzer)


@rule("power.session_readings", MeasuredSession, About.SCORE)
def readings(measured: MeasuredSession) -> Iterator[Fault]:
    """The analyzer's readings come from this session's testing phase, in order and not negative,
    and cover the run from power_begin to power_end.

    Source: mlcommons/power-dev, lib/server.py: spl.txt contains the daemon's lines with one mark;
    house rule: readings are neither extrapolated nor dropped.
    Advice: import the session as the workflow left it; a run that its readings do not cover has no
    energy.
    """
    yield from measured.find_faults(checks.check_analyzer_readings)
