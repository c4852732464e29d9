"""The meter protocol: a good meter is read, and one that is silent, slow, off, garbled or gone
costs a run its energy and nothing else.
"""

import json
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from extras.meters import client as meters
from extras.meters import ipmi, server
from extras.meters.client import Meter, MeterError
from extras.meters.fake import FakePowerProfile
from extras.meters.sampled_meter import MeterChannels, open_meter
from harness.machine.power.sampled import AbsentSource
from harness.machine.power.selection import (
    choose_power_sources,
)
from harness.machine.telemetry.process import sample_during_block
from suite.errors import MissingError, RequestError
from suite.measurement.power_readings import MeasuredWork, build_energy_records, read_power_readings

FAKE = "podium meter fake --watts 50 --period-ms 50"


def script(folder: Path, body: str) -> str:
    """A meter of a test's own: `say` prints a line, `lines` are the caller's."""
    say = (
        "def say(words):\n    sys.stdout.write(words + '\\n')  # at once: two threads may speak\n  "
        "  sys.stdout.flush()\n"
    )
    text = f"import sys, time\nlines = iter(sys.stdin.readline, '')\n{say}{textwrap.dedent(body)}"
    (folder / "meter.py").write_text(text)
    return f"{sys.executable} {folder / 'meter.py'}"


GOOD = """
for line in lines:
    word = line.strip()
    if word == "clock":
        say(f"clock {time.time_ns()}")
    elif word == "start":
        say("ok")
        AFTER
    elif word != "stop":
        say("podium-meter 1 name=test period_ms=20")
"""


def good(after: str) -> str:
    """A meter that answers well and then does something."""
    return GOOD.replace("AFTER", after)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A meter's program may take seconds to start on a crowded host; how long is waited is asked
    where a meter is silent.
    """
    monkeypatch.setattr(meters, "METER_ANSWER_LIMIT_S", 60.0)


def energy_of(
    folder: Path, address: str, seconds: float = 1.0
) -> tuple[list[float], tuple[str, ...]]:
    """Sample a meter around a window by the sampler's own process; the mean watts, and why there
    are none.
    """
    chosen = choose_power_sources("off", address, {})
    with sample_during_block(folder / "telemetry.jsonl", "cpu", chosen.openings) as sampler:
        begin = time.time_ns()
        time.sleep(seconds)
        end = time.time_ns()
        time.sleep(
            max(chosen.linger_s, 0.5)
        )  # two periods are 40 ms, and a program may be held up for longer
    assert sampler.lost == ()
    found, reasons = build_energy_records(
        read_power_readings(folder / "telemetry.jsonl"), begin, end, MeasuredWork(samples=10)
    )
    return [each.average_w for each in found], reasons


@pytest.mark.slow
def test_a_program_that_speaks_the_protocol_is_a_meter(tmp_path: Path) -> None:
    assert energy_of(tmp_path, FAKE) == ([pytest.approx(50.0, rel=1e-6)], ())
    head = json.loads((tmp_path / "telemetry.jsonl").read_text().splitlines()[0])
    (channel,) = [each for each in head["channels"] if each["name"] == "meter"]
    assert (channel["grade"], channel["scope"], channel["model"], channel["period_ms"]) == (
        "meter",
        ["system"],
        "fake",
        50,
    )
    assert abs(channel["clock_offset_ns"]) < 50_000_000
    first = next(
        line
        for line in map(json.loads, (tmp_path / "telemetry.jsonl").read_text().splitlines())
        if line.get("i") == channel["id"]
    )
    assert (
        first["t"] >= head["clocks_ns"][0]
    )  # a sample from before the file would look like a clock that runs backwards


@pytest.fixture
def port() -> Iterator[int]:
    """A meter behind TCP, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def callers() -> None:
            while True:
                try:
                    caller, _ = listening.accept()
                except OSError:
                    return
                with caller:
                    server.serve_meter_client(
                        caller.fileno(),
                        caller.fileno(),
                        "name=tcp scope=system uncertainty=0.01 period_ms=50",
                        50,
                        lambda: 75.0,
                    )

        thread = threading.Thread(target=callers, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
def test_a_meter_behind_tcp_is_read(tmp_path: Path, port: int) -> None:
    assert energy_of(tmp_path, f"tcp://127.0.0.1:{port}") == ([pytest.approx(75.0, rel=1e-6)], ())


@pytest.mark.slow
def test_the_window_alone_counts(tmp_path: Path) -> None:
    """100 W outside and 50 W inside: a sum that is shifted by a tenth of a second is off by more
    than the bound.
    """
    profile = tmp_path / "profile"
    profile.write_text("0 100\n")
    chosen = choose_power_sources(
        "off", f"podium meter fake --profile {profile} --period-ms 10", {}
    )
    with sample_during_block(tmp_path / "telemetry.jsonl", "cpu", chosen.openings):
        begin = time.time_ns() + 1_000_000_000
        end = begin + 3_000_000_000
        with profile.open(
            "a"
        ) as stream:  # ahead: a step that is written when its time has come comes late
            stream.write(f"{begin} 50\n{end} 100\n")
        time.sleep((end - time.time_ns()) / 1e9 + 0.5)
    (found,), _ = build_energy_records(
        read_power_readings(tmp_path / "telemetry.jsonl"), begin, end, MeasuredWork(samples=1)
    )
    assert abs(found.joules - 150.0) < max(1.5, min(found.edge_j, 15.0)), (
        "the edge is 2 J if no sample is late"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("say('hello')", "talks garbage: 'hello'"),
        ("say('podium-meter 1 period_ms=0')\ntime.sleep(60)", "has a period of 0 ms"),
        ("say('error no licence')", "says: no licence"),
        ("pass", "closed the connection"),
        (good("pass"), "is silent: no sample"),
        (good("say('sample x y')"), "talks garbage: 'sample x y'"),
        (good("say(f'sample {time.time_ns()} -3')"), "talks garbage"),
        (good("say(f'sample {time.time_ns()} nan')"), "talks garbage"),
        (good("say(f'sample {10**40} 50')"), "talks garbage"),
        (good("say(chr(27) + '[31m')"), "talks garbage: '\ufffd\\[31m'"),
        (
            GOOD.replace("clock {time.time_ns()}", "clock soon").replace("AFTER", "pass"),
            "talks garbage: 'clock soon'",
        ),
    ],
    ids=[
        "hello",
        "period",
        "error",
        "gone",
        "no samples",
        "garbled",
        "negative",
        "nan",
        "late",
        "escapes",
        "clock",
    ],
)
def test_a_meter_that_cannot_be_used_says_why_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, sentence: str
) -> None:
    if sentence.startswith("is silent"):
        monkeypatch.setattr(meters, "METER_ANSWER_LIMIT_S", 3.0)  # the one that is waited for
    with pytest.raises(MeterError, match=sentence):
        Meter(script(tmp_path, body)).close()
    assert isinstance(open_meter(script(tmp_path, "say('no')")), AbsentSource)


@pytest.mark.slow
def test_a_meter_that_never_answers_says_so_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meters, "METER_ANSWER_LIMIT_S", 0.2)
    with pytest.raises(MeterError, match=r"does not answer within 0\.2 s"):
        Meter(script(tmp_path, "time.sleep(60)")).close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (
            (
                "[(say(f'sample {time.time_ns()} 50'), time.sleep(0.02)) for _ in range(3)];"
                " sys.exit()"
            ),
            "closed the connection",
        ),
        (
            (
                "[(say(f'sample {time.time_ns()} 50'), time.sleep(0.02)) for _ in range(3)];"
                " say('error burnt'); time.sleep(9)"
            ),
            "says: burnt",
        ),
        (
            (
                "[(say(f'sample {time.time_ns()} 50'), time.sleep(0.02)) for _ in range(3)];"
                " say('?'); time.sleep(9)"
            ),
            "talks garbage: '\\?'",
        ),
    ],
    ids=["closes", "error", "garbage"],
)
def test_a_meter_that_fails_in_the_middle_costs_the_energy_alone(
    tmp_path: Path, after: str, sentence: str
) -> None:
    """The run is kept, without energy, and says why."""
    watts, reasons = energy_of(tmp_path, script(tmp_path, good(after)), 1.2)
    assert watts == [] and any(__import__("re").search(sentence, reason) for reason in reasons), (
        reasons
    )


@pytest.mark.slow
def test_a_meter_that_falls_silent_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "MIN_SILENCE_S", 0.2)
    meter = Meter(script(tmp_path, good("say(f'sample {time.time_ns()} 50')")))
    time.sleep(0.4)
    with pytest.raises(MeterError, match="fell silent"):
        list(meter.read_samples())
    meter.close()


def test_what_cannot_be_reached_is_a_wrong_request() -> None:
    """Before anything is timed: a typing error must not cost a night's run its energy."""
    with pytest.raises(RequestError, match="--meter tcp://127.0.0.1:1: cannot be reached"):
        choose_power_sources("off", "tcp://127.0.0.1:1", {})
    with pytest.raises(RequestError, match="cannot be reached: No such file"):
        choose_power_sources("off", "no-such-program --at-all", {})


def test_a_profile_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "profile").write_text("now 50\n")
    with pytest.raises(RequestError, match="not lines of UTC_NS WATTS"):
        FakePowerProfile(tmp_path / "profile")


def test_a_controller_is_asked_by_ipmitool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DCMI's present value; the minimum, maximum and average stand beside it."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(MissingError, match="ipmitool"):
        monkeypatch.setattr(ipmi.shutil, "which", lambda name: None)
        ipmi.open_ipmi_meter([])
    text = (
        "    Instantaneous power reading:                   220 Watts\n    Minimum during sampling"
        " period:                 18 Watts\n"
    )
    (tmp_path / "ipmitool").write_text(f"#!/bin/sh\ncat <<END\n{text}END\n")
    (tmp_path / "ipmitool").chmod(0o755)
    assert ipmi.read_ipmi_watts(["-H", "bmc"]) == 220.0
    (tmp_path / "ipmitool").write_text("#!/bin/sh\necho 'no dcmi' >&2\nexit 1\n")
    with pytest.raises(OSError, match="no dcmi"):
        ipmi.read_ipmi_watts([])


THREADED = """
import threading
SKEW, SENT, LOCK = [0], [0], threading.Lock()
def samples():
    while True:
        with LOCK:
            say(f"sample {time.time_ns() + SKEW[0]} 50")
            SENT[0] += 1
        BETWEEN
        time.sleep(0.02)
for line in lines:
    word = line.strip()
    if word == "clock":
        CLOCK
        say(f"clock {time.time_ns() + SKEW[0]}")
    elif word == "start":
        say("ok")
        threading.Thread(target=samples, daemon=True).start()
    elif word == "stop":
        LOCK.acquire()
        say(f"ok {COUNT}")
        break
    else:
        say("podium-meter 1 name=test period_ms=20")
"""


def threaded(
    folder: Path, between: str = "pass", count: str = "SENT[0]", clock: str = "pass"
) -> str:
    """A meter that samples and answers at the same time; the lock keeps samples and their count
    together.
    """
    body = THREADED.replace("BETWEEN", between).replace("COUNT", count).replace("CLOCK", clock)
    return script(folder, body)


@pytest.mark.slow
@pytest.mark.parametrize(
    "between",
    ["SENT[0] == 3 and say('error overload')", "SENT[0] == 3 and say('?!')"],
    ids=["error", "garbage"],
)
def test_an_error_in_the_middle_costs_the_energy_though_samples_go_on(
    tmp_path: Path, between: str
) -> None:
    """The reason and the joules stood beside each other."""
    watts, reasons = energy_of(tmp_path, threaded(tmp_path, between), 1.2)
    assert watts == [] and len(reasons) == 1


@pytest.mark.slow
def test_a_meter_that_is_an_hour_off_costs_the_energy_alone(tmp_path: Path) -> None:
    """Its clock is corrected where it may be; an hour is no drift."""
    watts, reasons = energy_of(
        tmp_path, threaded(tmp_path, "SKEW[0] = 3600 * 10**9", clock="SKEW[0] = 3600 * 10**9"), 0.6
    )
    assert watts == [] and any("+3,600,000 ms off" in reason for reason in reasons), reasons


@pytest.mark.slow
def test_samples_by_another_clock_than_the_answers_are_none_of_the_run(tmp_path: Path) -> None:
    body = threaded(tmp_path)
    text = (tmp_path / "meter.py").read_text()
    back_ns = min(
        3600 * 10**9, time.monotonic_ns() // 2
    )  # a time before this machine was started would be no time at all
    (tmp_path / "meter.py").write_text(text.replace("SKEW[0]} 50", f"-{back_ns}}} 50"))
    watts, reasons = energy_of(tmp_path, body, 0.6)
    assert watts == [] and any("no reading after the run ended" in reason for reason in reasons), (
        reasons
    )


@pytest.mark.slow
def test_a_clock_that_is_set_during_the_run_is_seen_after_it(tmp_path: Path) -> None:
    """A run of seconds had one comparison, before it."""
    watts, reasons = energy_of(
        tmp_path, threaded(tmp_path, "SKEW[0] = -300_000_000 if SENT[0] > 3 else 0"), 1.2
    )
    assert watts == [] and any("its clock moved by -300 ms" in reason for reason in reasons), (
        reasons
    )


@pytest.mark.slow
def test_samples_that_are_dated_ahead_are_no_samples(tmp_path: Path) -> None:
    """The clock's answers stay right, and the samples jump out of the window."""
    body = threaded(tmp_path)
    text = (tmp_path / "meter.py").read_text()
    (tmp_path / "meter.py").write_text(
        text.replace("SKEW[0]} 50", "300_000_000 * (SENT[0] > 3)} 50")
    )
    watts, reasons = energy_of(tmp_path, body, 0.8)
    assert watts == [] and any("ahead of its arrival" in reason for reason in reasons), reasons


@pytest.mark.slow
def test_a_meter_that_counts_right_keeps_its_energy(tmp_path: Path) -> None:
    """The same meter as in the tests around this one, without a fault."""
    assert energy_of(tmp_path, threaded(tmp_path), 0.6) == ([pytest.approx(50.0, rel=1e-6)], ())


@pytest.mark.slow
def test_a_sample_that_comes_while_the_meter_is_stopped_is_of_the_run(tmp_path: Path) -> None:
    """It was counted and never written: a meter that was held up for a moment behind the run cost
    the run its energy.
    """
    meter = Meter(threaded(tmp_path))
    channels = MeterChannels(meter)
    try:
        next(iter(channels.read()))
        behind_ns = time.monotonic_ns()
        time.sleep(0.2)
        found = list(channels.finish())
    finally:
        channels.close()
    assert {reading.channel for reading in found} == {0} and found[-1].t_ns > behind_ns
    assert [reading.value for reading in found] == [50_000_000] * len(found)


@pytest.mark.slow
def test_samples_that_were_lost_on_the_way_are_counted(tmp_path: Path) -> None:
    watts, reasons = energy_of(tmp_path, threaded(tmp_path, count="999999"), 0.6)
    assert watts == [] and any("sent 999999 samples" in reason for reason in reasons), reasons


@pytest.mark.slow
def test_a_late_answer_to_clock_is_no_garbage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told to talk garbage, seconds after the question."""
    monkeypatch.setattr(meters, "CLOCK_CHECK_PERIOD_S", 0.1)
    meter = Meter(threaded(tmp_path, clock="SENT[0] and time.sleep(0.08)"))
    found = []
    for _ in range(15):
        time.sleep(0.05)
        found += list(meter.read_samples())
    meter.close()
    assert len(found) > 10


def test_a_meter_that_cannot_start_is_told_before_the_run() -> None:
    """The whole run went by, and then the meter had closed the connection."""
    with pytest.raises(
        MissingError, match="ended with exit status 3: podium: hwmon: no ACPI power meter"
    ):
        choose_power_sources("off", "podium meter hwmon", {})


@pytest.mark.parametrize("address", ["", "  ", "'", "tcp://", "tcp://:x", "tcp://127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(RequestError, match="cannot be reached"):
        choose_power_sources("off", address, {})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--listen", "foo"], "write HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "write HOST:PORT"),
        (["--listen", "127.0.0.1:-1"], "write HOST:PORT"),
        (["--watts", "nan"], "not a finite number"),
        (["--watts", "inf"], "not a finite number"),
    ],
)
def test_a_meter_of_nothing_is_refused(words: list[str], sentence: str) -> None:
    """Tracebacks, and watts that are no number."""
    done = subprocess.run(
        [sys.executable, "-m", "suite.cli", "meter", "fake", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
