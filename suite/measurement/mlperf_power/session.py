"""Reads a session of the MLPerf Power workflow: the client's and server's records, and the
analyzer's readings. All of it is untrusted.

Source of the formats: mlcommons/power-dev, ptd_client_server/lib/summary.py (client.json,
server.json), lib/server.py (spl.txt, the lines of one
mark of SPEC PTDaemon's log) and compliance/check.py (the layout).
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

from suite.files.layout import DETAIL, SUMMARY
from suite.files.untrusted_files import UnreadableError, read, read_text
from suite.loadgen import power_window
from suite.measurement import power_readings
from suite.measurement.power_readings import Readings, Track, Work
from suite.power import SYSTEM, Grade, Quantity
from suite.records import EnergyRecord

POWER, RANGING, TESTING = "power", "ranging", "run_1"
SPL: Final = "spl.txt"
CLIENT, SERVER, DAEMON_LOG = f"{POWER}/client.json", f"{POWER}/server.json", f"{POWER}/ptd_logs.txt"
FILES: Final = (
    CLIENT,
    f"{POWER}/client.log",
    DAEMON_LOG,
    SERVER,
    f"{POWER}/server.log",
    *(f"{mode}/{name}" for mode in (RANGING, TESTING) for name in (DETAIL, SUMMARY, SPL)),
)
"""The files of a session. Source: compliance/check.py, RESULT_PATHS."""
LIMIT: Final = 64 << 20
"""Bytes of one file; a day at 1 Hz is 10 MB."""
PERIOD_MS: Final = 1000
"""The workflow's rate. Source: lib/server.py, `Go,1000,0,...`."""
NAME: Final = "analyzer"
SOURCE: Final = "ptdaemon"
NUMBER: Final = r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?"
READING: Final = re.compile(
    rf"Time,([^,]*),Watts,({NUMBER}),Volts,({NUMBER}),Amps,({NUMBER}),PF,({NUMBER}),(?:[^\n]*,)?Mark,([^,\n]*)"
)
COUNTS: Final = {
    key: re.compile(rf'"key": ?"{key}", ?"value": ?(\d{{1,15}})\b')
    for key in ("result_query_count", "generated_samples_per_query")
}
STREAM: Final = re.compile(r'"key": ?"effective_scenario", ?"value": ?"(?:Single|Multi)Stream"')
EDGES: Final = {
    key: re.compile(rf'"key": ?"{key}", ?"value": ?"([^"\\]{{1,40}})"')
    for key in ("power_begin", "power_end")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A command and its answer."""

    cmd: str
    reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """client.json or server.json, as far as it is judged."""

    timezone_s: int
    """Added to the server's local time to get UTC."""
    messages: Sequence[Message]
    """Between client and server."""
    uuid: Mapping[str, UUID]
    """client and server -> the identity that it drew."""
    session_name: str
    results: Mapping[str, str]
    """File -> SHA-1."""
    phases: Mapping[str, Sequence[int]]
    """ranging and testing -> ns of UTC at its start, before and after its workload, and at its end.
    """
    daemon_messages: Sequence[Message]
    """Between server and daemon."""
    device_type: int | None
    """The daemon's number for the analyzer, from v1.1 of the workflow."""
    debug: bool


def side_of(content: bytes) -> Side:
    """Parse client.json or server.json; ValueError for anything else."""
    told = json.loads(content)
    try:
        return Side(
            timezone_s=power_readings.whole(told["timezone"]),
            messages=messages(told["messages"]),
            uuid={name: UUID(told["uuid"][name]) for name in ("client", "server")},
            session_name=text(told["session_name"]),
            results={
                text(name).replace("\\", "/"): text(sha1) for name, sha1 in told["results"].items()
            },  # the server may run on Windows
            phases={
                mode: [finite_ns(utc_s) for utc_s, _ in told["phases"][mode]]
                for mode in ("ranging", "testing")
            },
            daemon_messages=messages(told.get("ptd_messages", [])),
            device_type=told.get("ptd_config", {}).get("device_type"),
            debug=bool(told.get("debug", False)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no record of a session: {type(error).__name__}: {error}") from error


def messages(told: Any) -> list[Message]:
    """Parse commands and answers; one without an answer has an empty one."""
    return [Message(cmd=text(each["cmd"] or ""), reply=text(each["reply"] or "")) for each in told]


def text(value: Any) -> str:
    """Return a text; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is no text")
    return value


def finite_ns(seconds: Any) -> int:
    """Convert a time to ns; TypeError or ValueError for anything else."""
    if not math.isfinite(seconds) or abs(seconds) > 1e11:
        raise ValueError(f"a time of {seconds} s")
    return int(round(seconds * 1e9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading of the analyzer."""

    t_ns: int
    """UTC, by the server's clock."""
    watts: float
    volts: float
    amps: float
    power_factor: float
    mark: str


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session beside the run that it measured; what cannot be read raises UnreadableError when it
    is asked for.
    """

    home: Path
    """Folder of power/ and ranging/."""
    spl: Path
    """The analyzer's readings of the run."""
    run: Path
    """Folder of LoadGen's files."""

    def path(self, name: str) -> Path:
        """Return where a session's file lies: the LoadGen logs of the run are the run's own."""
        if name == f"{TESTING}/{SPL}":
            return self.spl
        return self.run / Path(name).name if name.startswith(f"{TESTING}/") else self.home / name

    @cached_property
    def client(self) -> Side:
        """client.json."""
        return read(self.path(CLIENT), side_of)

    @cached_property
    def server(self) -> Side:
        """server.json."""
        return read(self.path(SERVER), side_of)

    @cached_property
    def samples(self) -> Sequence[Sample]:
        """The readings of the run."""
        return samples_in(self.spl, self.server.timezone_s)

    @cached_property
    def windows(self) -> Mapping[str, tuple[int, int]]:
        """Mode -> LoadGen's power_begin and power_end, ns of UTC."""
        return {mode: window(self.path(f"{mode}/{DETAIL}")) for mode in (RANGING, TESTING)}

    @cached_property
    def daemon_lines(self) -> Sequence[str]:
        """Lines of the daemon's log."""
        return read_text(self.path(DAEMON_LOG), "latin-1", LIMIT).splitlines()

    def reply(self, command: str) -> str:
        """Return the daemon's answer to the first command that begins so; empty without one."""
        return next(
            (each.reply for each in self.server.daemon_messages if each.cmd.startswith(command)), ""
        )

    @cached_property
    def work(self) -> Work:
        """What the run did, by its detail log; nothing where that does not say."""
        detail = read_text(self.run / DETAIL, limit=LIMIT)
        queries, per_query = (
            int(match[1]) if (match := COUNTS[key].search(detail)) else 0 for key in COUNTS
        )
        return Work(samples=queries * per_query, queries=queries if STREAM.search(detail) else None)

    @property
    def energy(self) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
        """The energy of the run, and why there is none."""
        return power_readings.records(self.readings, *self.windows[TESTING], self.work)

    @property
    def readings(self) -> Readings:
        """The analyzer as a power channel of the whole system."""
        facts: Mapping[str, Any] = {"model": self.reply("Identify").partition(",")[0]}
        track = Track(
            name=NAME,
            source=SOURCE,
            grade=Grade.ANALYZER,
            scopes=(SYSTEM,),
            containers=(),
            quantity=Quantity.POWER,
            period_ms=PERIOD_MS,
            facts=facts,
            times_ns=[each.t_ns for each in self.samples],
            values=[round(each.watts * 1e6) for each in self.samples],
        )
        return Readings(tracks={NAME: track}, ended=True)


def beside(run: Path) -> Session | None:
    """Return the session that was imported beside a performance run; None without one."""
    return Session(home=run.parent, spl=run / SPL, run=run) if (run / SPL).is_file() else None


def offered(folder: Path, run: Path) -> Session:
    """Return a session as the workflow left it, with the run that it is said to have measured."""
    return Session(home=folder, spl=folder / TESTING / SPL, run=run)


def utc_ns(text: str, timezone_s: int) -> int:
    """Parse a time of the server, month first, to ns of UTC; ValueError if it is none. `timezone_s`
    is added, as the workflow defines it.
    """
    found = power_window.utc_ns(text)
    if found is None or abs(timezone_s) > timedelta(days=1).total_seconds():
        raise ValueError(f"{text[:40]!r} is no time in the form 11-22-2026 21:09:08.765")
    return found + timezone_s * 1_000_000_000


def samples_in(path: Path, timezone_s: int) -> Sequence[Sample]:
    """Read the analyzer's readings; UnreadableError if a line is none."""

    def parse(content: bytes) -> Sequence[Sample]:
        return [
            sample(line, number, timezone_s)
            for number, line in enumerate(content.decode("ascii").splitlines(), 1)
        ]

    return read(path, parse, LIMIT)


def sample(line: str, number: int, timezone_s: int) -> Sample:
    """Parse a line of spl.txt."""
    match = READING.fullmatch(line)
    if not match:
        raise ValueError(f"line {number} is no reading of the daemon")
    watts, volts, amps, factor = (float(match[place]) for place in range(2, 6))
    return Sample(
        t_ns=utc_ns(match[1], timezone_s),
        watts=watts,
        volts=volts,
        amps=amps,
        power_factor=factor,
        mark=match[6],
    )


def window(detail: Path) -> tuple[int, int]:
    """Read power_begin and power_end of a LoadGen detail log; UnreadableError without them."""
    text = read_text(detail, limit=LIMIT)
    begin, end = (
        (match := EDGES[key].search(text)) and power_window.utc_ns(match[1]) for key in EDGES
    )
    if begin is None or end is None:
        raise UnreadableError(detail, "no power_begin and power_end")
    return begin, end
