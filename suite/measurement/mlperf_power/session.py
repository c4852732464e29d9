"""Reads a session of the MLPerf Power workflow: the client's and server's records, and the
analyzer's readings. All of it is untrusted.

Source of the formats: mlcommons/power-dev, ptd_client_server/lib/summary.py (client.json,
server.json), lib/server.py (spl.txt, the lines of one mark of SPEC PTDaemon's log) and
compliance/check.py (the layout).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.files.untrusted_files import UnreadableError, read_untrusted_file, read_untrusted_text
from suite.loadgen import power_window
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork, PowerTrack, TelemetryReadings
from suite.power import SYSTEM, Grade, Quantity
from suite.records import EnergyRecord

POWER_FOLDER, RANGING_FOLDER, TESTING_FOLDER = "power", "ranging", "run_1"
ANALYZER_LOG: Final = "spl.txt"
CLIENT_RECORD, SERVER_RECORD, DAEMON_LOG = (
    f"{POWER_FOLDER}/client.json",
    f"{POWER_FOLDER}/server.json",
    f"{POWER_FOLDER}/ptd_logs.txt",
)
SESSION_FILES: Final = (
    CLIENT_RECORD,
    f"{POWER_FOLDER}/client.log",
    DAEMON_LOG,
    SERVER_RECORD,
    f"{POWER_FOLDER}/server.log",
    *(
        f"{mode}/{name}"
        for mode in (RANGING_FOLDER, TESTING_FOLDER)
        for name in (DETAIL_LOG, SUMMARY_LOG, ANALYZER_LOG)
    ),
)
"""The files of a session. Source: compliance/check.py, RESULT_PATHS."""
MAX_SESSION_FILE_BYTES: Final = 64 << 20
"""Bytes of one file; a day at 1 Hz is 10 MB."""
ANALYZER_PERIOD_MS: Final = 1000
"""The workflow's rate. Source: lib/server.py, `Go,1000,0,...`."""
ANALYZER_CHANNEL: Final = "analyzer"
ANALYZER_SOURCE: Final = "ptdaemon"
DECIMAL_NUMBER: Final = r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?"
ANALYZER_LOG_LINE: Final = re.compile(
    rf"Time,([^,]*),Watts,({DECIMAL_NUMBER}),Volts,({DECIMAL_NUMBER}),Amps,({DECIMAL_NUMBER}),"
    rf"PF,({DECIMAL_NUMBER}),(?:[^\n]*,)?Mark,([^,\n]*)"
)
COUNT_PATTERNS: Final = {
    key: re.compile(rf'"key": ?"{key}", ?"value": ?(\d{{1,15}})\b')
    for key in ("result_query_count", "generated_samples_per_query")
}
STREAM_SCENARIO: Final = re.compile(
    r'"key": ?"effective_scenario", ?"value": ?"(?:Single|Multi)Stream"'
)
POWER_WINDOW_PATTERNS: Final = {
    key: re.compile(rf'"key": ?"{key}", ?"value": ?"([^"\\]{{1,40}})"')
    for key in ("power_begin", "power_end")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMessage:
    """A command and its answer."""

    cmd: str
    reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """client.json or server.json, as far as it is judged."""

    timezone_s: int
    """Added to the server's local time to get UTC."""
    messages: Sequence[SessionMessage]
    """Between client and server."""
    uuid: Mapping[str, UUID]
    """client and server -> the identity that it drew."""
    session_name: str
    results: Mapping[str, str]
    """File -> SHA-1."""
    phases: Mapping[str, Sequence[int]]
    """ranging and testing -> ns of UTC at its start, before and after its workload, and at its end.
    """
    daemon_messages: Sequence[SessionMessage]
    """Between server and daemon."""
    device_type: int | None
    """The daemon's number for the analyzer, from v1.1 of the workflow."""
    debug: bool


def parse_session_record(content: bytes) -> SessionRecord:
    """Parse client.json or server.json; ValueError for anything else."""
    document = json.loads(content)
    try:
        return SessionRecord(
            timezone_s=power_readings.require_int64(document["timezone"]),
            messages=parse_session_messages(document["messages"]),
            uuid={name: UUID(document["uuid"][name]) for name in ("client", "server")},
            session_name=require_session_text(document["session_name"]),
            results={
                require_session_text(name).replace("\\", "/"): require_session_text(sha1)
                for name, sha1 in document["results"].items()
            },  # the server may run on Windows
            phases={
                mode: [convert_seconds_to_ns(utc_s) for utc_s, _ in document["phases"][mode]]
                for mode in ("ranging", "testing")
            },
            daemon_messages=parse_session_messages(document.get("ptd_messages", [])),
            device_type=document.get("ptd_config", {}).get("device_type"),
            debug=bool(document.get("debug", False)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no record of a session: {type(error).__name__}: {error}") from error


def parse_session_messages(entries: Any) -> list[SessionMessage]:
    """Parse commands and answers; one without an answer has an empty one."""
    return [
        SessionMessage(
            cmd=require_session_text(each["cmd"] or ""),
            reply=require_session_text(each["reply"] or ""),
        )
        for each in entries
    ]


def require_session_text(value: Any) -> str:
    """Return a text; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is no text")
    return value


def convert_seconds_to_ns(seconds: Any) -> int:
    """Convert a time to ns; TypeError or ValueError for anything else."""
    if not math.isfinite(seconds) or abs(seconds) > 1e11:
        raise ValueError(f"a time of {seconds} s")
    return int(round(seconds * 1e9))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerReading:
    """One reading of the analyzer."""

    t_ns: int
    """UTC, by the server's clock."""
    watts: float
    volts: float
    amps: float
    power_factor: float
    mark: str


@dataclass(frozen=True, kw_only=True)
class PowerSession:
    """A session beside the run that it measured; what cannot be read raises UnreadableError when it
    is asked for.
    """

    folder: Path
    """Folder of power/ and ranging/."""
    analyzer_log: Path
    """The analyzer's readings of the run."""
    run: Path
    """Folder of LoadGen's files."""

    def locate_file(self, name: str) -> Path:
        """Return the path of a session's file: the LoadGen logs of the run are the run's own."""
        if name == f"{TESTING_FOLDER}/{ANALYZER_LOG}":
            return self.analyzer_log
        if name.startswith(f"{TESTING_FOLDER}/"):
            return self.run / Path(name).name
        return self.folder / name

    @cached_property
    def client(self) -> SessionRecord:
        """client.json."""
        return read_untrusted_file(self.locate_file(CLIENT_RECORD), parse_session_record)

    @cached_property
    def server(self) -> SessionRecord:
        """server.json."""
        return read_untrusted_file(self.locate_file(SERVER_RECORD), parse_session_record)

    @cached_property
    def samples(self) -> Sequence[AnalyzerReading]:
        """The readings of the run."""
        return read_analyzer_log(self.analyzer_log, self.server.timezone_s)

    @cached_property
    def windows(self) -> Mapping[str, tuple[int, int]]:
        """Mode -> LoadGen's power_begin and power_end, ns of UTC."""
        return {
            mode: read_power_window(self.locate_file(f"{mode}/{DETAIL_LOG}"))
            for mode in (RANGING_FOLDER, TESTING_FOLDER)
        }

    @cached_property
    def daemon_lines(self) -> Sequence[str]:
        """Lines of the daemon's log."""
        return read_untrusted_text(
            self.locate_file(DAEMON_LOG), "latin-1", MAX_SESSION_FILE_BYTES
        ).splitlines()

    def find_reply(self, command: str) -> str:
        """Return the daemon's answer to the first command that begins so; empty without one."""
        return next(
            (each.reply for each in self.server.daemon_messages if each.cmd.startswith(command)), ""
        )

    @cached_property
    def work(self) -> MeasuredWork:
        """What the run did, by its detail log; nothing where that does not say."""
        detail = read_untrusted_text(self.run / DETAIL_LOG, limit=MAX_SESSION_FILE_BYTES)
        queries, per_query = (
            int(match[1]) if (match := COUNT_PATTERNS[key].search(detail)) else 0
            for key in COUNT_PATTERNS
        )
        return MeasuredWork(
            samples=queries * per_query, queries=queries if STREAM_SCENARIO.search(detail) else None
        )

    @property
    def energy(self) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
        """The energy of the run, and why there is none."""
        return power_readings.build_energy_records(
            self.readings, *self.windows[TESTING_FOLDER], self.work
        )

    @property
    def readings(self) -> TelemetryReadings:
        """The analyzer as a power channel of the whole system."""
        channel_facts: Mapping[str, Any] = {"model": self.find_reply("Identify").partition(",")[0]}
        track = PowerTrack(
            name=ANALYZER_CHANNEL,
            source=ANALYZER_SOURCE,
            grade=Grade.ANALYZER,
            scopes=(SYSTEM,),
            containers=(),
            quantity=Quantity.POWER,
            period_ms=ANALYZER_PERIOD_MS,
            facts=channel_facts,
            times_ns=[each.t_ns for each in self.samples],
            values=[round(each.watts * 1e6) for each in self.samples],
        )
        return TelemetryReadings(tracks={ANALYZER_CHANNEL: track}, ended=True)


def find_imported_session(run: Path) -> PowerSession | None:
    """Return the session that was imported beside a performance run; None without one."""
    if not (run / ANALYZER_LOG).is_file():
        return None
    return PowerSession(folder=run.parent, analyzer_log=run / ANALYZER_LOG, run=run)


def build_offered_session(folder: Path, run: Path) -> PowerSession:
    """Return a session as the workflow left it, with the run that it is said to have measured."""
    return PowerSession(folder=folder, analyzer_log=folder / TESTING_FOLDER / ANALYZER_LOG, run=run)


def parse_server_time_ns(text: str, timezone_s: int) -> int:
    """Parse a time of the server, month first, to ns of UTC; ValueError if it is none. `timezone_s`
    is added, as the workflow defines it.
    """
    found = power_window.parse_power_time_ns(text)
    if found is None or abs(timezone_s) > timedelta(days=1).total_seconds():
        raise ValueError(f"{text[:40]!r} is no time in the form 11-22-2026 21:09:08.765")
    return found + timezone_s * 1_000_000_000


def read_analyzer_log(path: Path, timezone_s: int) -> Sequence[AnalyzerReading]:
    """Read the analyzer's readings; UnreadableError if a line is none."""

    def parse_lines(content: bytes) -> Sequence[AnalyzerReading]:
        return [
            parse_analyzer_line(line, number, timezone_s)
            for number, line in enumerate(content.decode("ascii").splitlines(), 1)
        ]

    return read_untrusted_file(path, parse_lines, MAX_SESSION_FILE_BYTES)


def parse_analyzer_line(line: str, number: int, timezone_s: int) -> AnalyzerReading:
    """Parse a line of spl.txt."""
    match = ANALYZER_LOG_LINE.fullmatch(line)
    if not match:
        raise ValueError(f"line {number} is no reading of the daemon")
    watts, volts, amps, factor = (float(match[group]) for group in range(2, 6))
    return AnalyzerReading(
        t_ns=parse_server_time_ns(match[1], timezone_s),
        watts=watts,
        volts=volts,
        amps=amps,
        power_factor=factor,
        mark=match[6],
    )


def read_power_window(detail: Path) -> tuple[int, int]:
    """Read power_begin and power_end of a LoadGen detail log; UnreadableError without them."""
    text = read_untrusted_text(detail, limit=MAX_SESSION_FILE_BYTES)
    begin, end = (
        (match := POWER_WINDOW_PATTERNS[key].search(text))
        and power_window.parse_power_time_ns(match[1])
        for key in POWER_WINDOW_PATTERNS
    )
    if begin is None or end is None:
        raise UnreadableError(detail, "no power_begin and power_end")
    return begin, end
