"""Sessions of MLPerf Power: the official workflow's files say that an accepted analyzer measured
this run, and nobody changed them.
"""

from collections.abc import Iterator

from compliance.documents.podium.power_session import MeasuredSession
from compliance.rules import rule
from compliance.verdict import Fault
from suite.measurement.mlperf_power import checks


@rule("power.session", MeasuredSession)
def identity(measured: MeasuredSession) -> Iterator[Fault]:
    """Client and server tell of one session: UUIDs, name, messages and version agree, and the
    server was not in debug mode.

    Source: mlcommons/power-dev, compliance/check.py: uuid_check, session_name_check,
    messages_check, debug_check.
    Advice: import the session as the workflow left it; do not join the halves of two.
    """
    yield from measured.find_faults(checks.check_session_identity)


@rule("power.session_files", MeasuredSession)
def files(measured: MeasuredSession) -> Iterator[Fault]:
    """Every file of the session is the one that client and server hashed, and the measured run's
    logs are this run's own.

    Source: mlcommons/power-dev, compliance/check.py: results_check; MLPerf Power rules: power and
    performance are of one run.
    Advice: import the session of this run, unmodified: podium power import SESSION RUN_FOLDER.
    """
    yield from measured.find_faults(checks.check_session_files)


@rule("power.session_phases", MeasuredSession)
def phases(measured: MeasuredSession) -> Iterator[Fault]:
    """Client and server passed each step within 500 ms, LoadGen's run lies within the testing
    phase, and ranging took about as long.

    Source: mlcommons/power-dev, compliance/check.py: phases_check, without its tolerance of an
    hour; more than 5 % shorter than ranging is a warning.
    Advice: set both clocks by NTP (power_client --ntp) and measure again.
    """
    yield from measured.find_faults(checks.check_session_phases)


@rule("power.session_device", MeasuredSession)
def device(measured: MeasuredSession) -> Iterator[Fault]:
    """The analyzer is one that MLPerf accepts, read each second, with its uncertainty watched from
    before ranging and at most 1 % during the run.

    Source: mlcommons/power-dev, compliance/check.py: ptd_messages_check, check_ptd_logs,
    check_ptd_config; here a warning of the daemon counts over
    the whole run, not from 500 s after its begin on.
    Advice: measure again with an accepted analyzer in a fixed range.
    """
    yield from measured.find_faults(checks.check_power_analyzer)


@rule("power.session_readings", MeasuredSession)
def readings(measured: MeasuredSession) -> Iterator[Fault]:
    """The analyzer's readings are of this session's testing phase, in order, not negative, and
    cover the run from power_begin to power_end.

    Source: mlcommons/power-dev, lib/server.py: spl.txt has the daemon's lines of one mark; house
    rule: nothing is extrapolated or dropped.
    Advice: import the session as the workflow left it; a run that its readings do not cover has no
    energy.
    """
    yield from measured.find_faults(checks.check_analyzer_readings)
