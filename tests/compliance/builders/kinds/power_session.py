"""Sessions of the MLPerf Power workflow beside a small Offline run, in the form that
mlcommons/power-dev writes, and what breaks them.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kinds.records import recorded
from spoiling import OFF, Builder

from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.loadgen import power_window
from suite.measurement.mlperf_power.session import (
    ANALYZER_LOG,
    POWER_FOLDER,
    RANGING_FOLDER,
    SESSION_FILES,
    TESTING_FOLDER,
    read_power_window,
)

NAME: Final = "2023-11-15_00-00-00_resnet50"
ZONE_S: Final = -3600
"""A server one hour east of Greenwich: its clock shows more than UTC."""
SECOND_NS: Final = 1_000_000_000
VOLTS, AMPS, FACTOR = 230.4, 1.05, 0.957
STARTED: Final = (
    "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples"
)
Change = Callable[[Path], object]


def stamp(utc_ns: int, zone_s: int = 0) -> str:
    """A time as the daemon writes it, month first."""
    return datetime.fromtimestamp(utc_ns // 1_000_000 / 1000 - zone_s, UTC).strftime(
        power_window.LOADGEN_POWER_TIME_FORMAT
    )[:-3]


def workflow(run: Path, session: Path) -> None:
    """Write the session that measured a run: ranging a minute earlier, then the run itself."""
    begin, end = read_power_window(run / DETAIL_LOG)
    earlier_ns = end - begin + 60 * SECOND_NS
    for name in (POWER_FOLDER, RANGING_FOLDER, TESTING_FOLDER):
        (session / name).mkdir(parents=True)
    for name in (DETAIL_LOG, SUMMARY_LOG):
        content = (run / name).read_text()
        (session / TESTING_FOLDER / name).write_text(content)
        for moment in (begin, end):
            content = content.replace(stamp(moment), stamp(moment - earlier_ns))
        (session / RANGING_FOLDER / name).write_text(content)
    for mode, word, moved_ns in (
        (TESTING_FOLDER, "testing", 0),
        (RANGING_FOLDER, "ranging", earlier_ns),
    ):
        (session / mode / ANALYZER_LOG).write_text(spl(begin - moved_ns, end - moved_ns, word))
    (session / POWER_FOLDER / "client.log").write_text("power client: session done\n")
    (session / POWER_FOLDER / "server.log").write_text("power server: session done\n")
    (session / POWER_FOLDER / "ptd_logs.txt").write_text(daemon_log(begin, end, earlier_ns))
    records(session, begin, end, earlier_ns)


def spl(begin: int, end: int, word: str) -> str:
    """The analyzer's lines of one mark, each second."""
    lines = []
    for place in range((end - begin) // SECOND_NS + 8):
        amps = AMPS + 0.001 * place
        reading = (
            f"Watts,{VOLTS * amps * FACTOR:.6f},Volts,{VOLTS:.6f},Amps,{amps:.6f},PF,{FACTOR:.6f}"
        )
        lines.append(
            f"Time,{stamp(begin + (place - 4) * SECOND_NS + 7_000_000, ZONE_S)},{reading},Mark,{NAME}_{word}\n"
        )
    return "".join(lines)


def daemon_log(begin: int, end: int, earlier_ns: int) -> str:
    """What the daemon logged."""
    events = [
        (
            begin - earlier_ns - 30 * SECOND_NS,
            "Uncertainty checking for YokogawaWT310E is activated",
        ),
        (begin - earlier_ns - 5 * SECOND_NS, f"Go with mark '{NAME}_ranging'"),
        (end - earlier_ns + 5 * SECOND_NS, "Completed test"),
        (begin - 5 * SECOND_NS, f"Go with mark '{NAME}_testing'"),
        (end + 5 * SECOND_NS, "Completed test"),
    ]
    return "".join(f"{stamp(moment, ZONE_S)}: {text}\n" for moment, text in events)


def records(session: Path, begin: int, end: int, earlier_ns: int) -> None:
    """Write client.json and server.json: the server was 12 ms later at each step."""
    edges = [begin - 8 * SECOND_NS, begin - 2 * SECOND_NS, end + 2 * SECOND_NS, end + 8 * SECOND_NS]
    daemon = [
        ("Hello", "Hello, PTDaemon here!"),
        ("Identify", "YokogawaWT310E,C2PH13047V,version=1.9.2-de18bb8c,SPEC"),
        ("RR", "Ranges,1,2.0,1,300.0"),
    ]
    daemon += [
        ("SR,V,Auto", "Range V changed"),
        ("SR,A,Auto", "Range A changed"),
        (f"Go,1000,0,{NAME}_ranging", STARTED),
    ]
    for file, late_s, zone_s in (("client.json", 0.0, 0), ("server.json", 0.012, ZONE_S)):
        steps = {
            mode: [
                [(edge - moved) / 1e9 + late_s, 1000 + (edge - moved - begin) / 1e9]
                for edge in edges
            ]
            for mode, moved in (("ranging", earlier_ns), ("testing", 0))
        }
        greeting = {
            "cmd": "mlcommons/power client v3",
            "cmd_time": 1.0,
            "reply": "mlcommons/power server v3",
            "reply_time": 1.1,
        }
        clock = {
            "cmd": "time",
            "cmd_time": 2.0,
            "reply": str(begin / 1e9 + late_s),
            "reply_time": 2.1,
        }
        new = {
            "cmd": "new,resnet50,41fd8c1e-8bc2-4dd1-9c26-9d4b2f6c6f0e",
            "cmd_time": 3.0,
            "reply": f"OK {NAME},ab",
            "reply_time": 3.1,
        }
        told: dict[str, Any] = {
            "version": "1.0",
            "timezone": zone_s,
            "modules": {},
            "sources": {},
            "messages": [greeting, clock, new],
            "session_name": NAME,
            "phases": steps,
            "uuid": {
                "client": "41fd8c1e-8bc2-4dd1-9c26-9d4b2f6c6f0e",
                "server": "7a0cd1b0-7f35-44ba-9d52-2f0f3d7a3a11",
            },
            "results": {},
        }
        if file == "server.json":
            told |= {
                "ptd_messages": [{"cmd": cmd, "reply": reply} for cmd, reply in daemon],
                "ptd_config": {"device_type": 49, "command": ["ptd"]},
            }
        (session / POWER_FOLDER / file).write_text(json.dumps(told, indent=4))
    rehash(session)


def rehash(session: Path) -> None:
    """Take the hashes again: the client's of LoadGen's logs, the server's of all."""
    for file in ("client.json", "server.json"):
        hashed = {
            name
            for name in SESSION_FILES
            if not name.endswith(".json") and (file == "server.json" or "mlperf_log" in name)
        }
        sha1s = {
            name: hashlib.sha1((session / name).read_bytes(), usedforsecurity=False).hexdigest()
            for name in sorted(hashed)
        }
        edit(session / POWER_FOLDER / file, lambda told, sha1s=sha1s: told.update(results=sha1s))  # type: ignore[misc]


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a record."""
    told = json.loads(path.read_text())
    change(told)
    path.write_text(json.dumps(told, indent=4))


def put_beside(session: Path, run: Path) -> None:
    """Put a session where the import puts it."""
    for name in (POWER_FOLDER, RANGING_FOLDER):
        (session / name).rename(run.parent / name)
    (session / TESTING_FOLDER / ANALYZER_LOG).rename(run / ANALYZER_LOG)


def measured(change: Change | None = None, *, hashed: bool = True) -> Builder:
    """A run with its session beside it; `change` edits the session before the hashes are taken, or
    after.
    """

    def build(folder: Path) -> None:
        recorded(OFF)(folder)
        (run,) = folder.glob("*/performance/run_1")
        session = folder / "session"
        workflow(run, session)
        if change:
            change(session)
        if change and hashed:
            rehash(session)
        put_beside(session, run)
        for name in (DETAIL_LOG, SUMMARY_LOG):
            (session / TESTING_FOLDER / name).unlink()
        (session / TESTING_FOLDER).rmdir()
        session.rmdir()

    return build


def replaced(name: str, old: str, new: str) -> Change:
    """Replace text in one of the files."""

    def change(session: Path) -> None:
        content = (session / name).read_text()
        assert old in content, (name, old)
        (session / name).write_text(content.replace(old, new))

    return change


def told(name: str, **changes: Any) -> Change:
    """Change fields of client.json or server.json."""
    return lambda session: edit(
        session / POWER_FOLDER / name, lambda record: record.update(changes)
    )


def late(by_s: float) -> Change:
    """The server's clock was late."""

    def change(session: Path) -> None:
        edit(
            session / POWER_FOLDER / "server.json",
            lambda record: [
                step.__setitem__(0, step[0] + by_s)
                for steps in record["phases"].values()
                for step in steps
            ],
        )

    return change


def shifted(by_s: float) -> Change:
    """Both clocks say that the phases were at another time."""

    def change(session: Path) -> None:
        for name in ("client.json", "server.json"):
            edit(
                session / POWER_FOLDER / name,
                lambda record: [
                    step.__setitem__(0, step[0] + by_s) for step in record["phases"]["testing"]
                ],
            )

    return change


def cut(session: Path) -> None:
    """The last readings are gone."""
    path = session / TESTING_FOLDER / ANALYZER_LOG
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-6]))


def halved(session: Path) -> None:
    """Half of every power."""
    path = session / TESTING_FOLDER / ANALYZER_LOG
    lines = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text(
        "".join(
            ",".join([*words[:3], f"{float(words[3]) / 2:.6f}", *words[4:]]) + "\n"
            for words in lines
        )
    )


def sparse(session: Path) -> None:
    """Three of four readings are gone: 4 s apart."""
    path = session / TESTING_FOLDER / ANALYZER_LOG
    path.write_text("".join(path.read_text().splitlines(keepends=True)[::4]))


def warned(session: Path) -> None:
    """The daemon warned of its uncertainty during the run."""
    begin, _ = read_power_window(session / TESTING_FOLDER / DETAIL_LOG)
    with (session / POWER_FOLDER / "ptd_logs.txt").open("a") as stream:
        stream.write(
            f"{stamp(begin + SECOND_NS, ZONE_S)}: WARNING: Uncertainty 1.31%, which is above 1.00%"
            " limit for the last sample!\n"
        )


def another(session: Path) -> None:
    """The logs that were measured are another run's."""
    path = session / TESTING_FOLDER / DETAIL_LOG
    path.write_text(path.read_text() + "\n")


SERVER: Final = "power/server.json"
SESSION_BASES: Final[Mapping[str, Builder]] = {"powered-session": measured()}
RULES: Final = (
    "power.session",
    "power.session_files",
    "power.session_phases",
    "power.session_device",
    "power.session_readings",
)
SESSION_VALID: Final = dict.fromkeys(RULES, "powered-session")
SESSION_INVALID: Final[Mapping[str, Builder]] = {
    "power.session": measured(told("server.json", session_name="2023-11-15_00-00-01_resnet50")),
    "power.session_files": measured(halved, hashed=False),
    "power.session_phases": measured(late(0.8)),
    "power.session_device": measured(replaced(SERVER, "YokogawaWT310E,", "Smartplug,")),
    "power.session_readings": measured(cut),
}
SESSION_MUTANTS: Final[Mapping[str, Builder]] = {
    **{f"{rule}, as the example has it": builder for rule, builder in SESSION_INVALID.items()},
    "another run's logs": measured(another),
    "swapped session": measured(replaced(SERVER, "7a0cd1b0", "7a0cd1b1")),
    "message edited": measured(replaced(SERVER, "new,resnet50", "new,gnmt")),
    "debug mode": measured(told("server.json", debug=True)),
    "versions differ": measured(replaced(SERVER, "power server v3", "power server v2")),
    "readings changed": measured(halved, hashed=False),
    "readings halved and hashed again": measured(halved),
    "three of four readings gone": measured(sparse),
    "daemon's log changed": measured(warned, hashed=False),
    "file gone": measured(
        lambda session: (session / POWER_FOLDER / "ptd_logs.txt").unlink(), hashed=False
    ),
    "phases at another hour": measured(shifted(3600)),
    "readings of ranging": measured(
        replaced(f"{TESTING_FOLDER}/{ANALYZER_LOG}", "_testing", "_ranging")
    ),
    "tail cut and hashed again": measured(cut),
    "negative power": measured(replaced(f"{TESTING_FOLDER}/{ANALYZER_LOG}", "Watts,2", "Watts,-2")),
    "uncertainty above 1 %": measured(warned),
    "uncertainty never watched": measured(replaced("power/ptd_logs.txt", "is activated", "is off")),
    "another analyzer's number": measured(told("server.json", ptd_config={"device_type": 8})),
    "garbled readings": measured(
        replaced(f"{TESTING_FOLDER}/{ANALYZER_LOG}", "Watts", "Milliwatts")
    ),
    "day first": measured(replaced(f"{TESTING_FOLDER}/{ANALYZER_LOG}", "Time,11-1", "Time,1-11")),
    "no record of a session": measured(
        lambda session: (session / SERVER).write_text("[]"), hashed=False
    ),
}
"""Kinds of violation of an imported session."""
