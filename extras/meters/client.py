"""An external meter, read over TCP or a program's standard streams by the text protocol of
docs/reference/power-meters.md.

The fastest of eight exchanges measures the offset of the meter's clock to this machine's before the
run, and again after it; single ones while it runs.
"""

import math
import os
import select
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Final

from suite.files.untrusted_files import replace_unprintable
from suite.power import SYSTEM, Channel, Grade, PowerReading, Quantity
from suite.units import UW_PER_W

METER_PROTOCOL: Final = "podium-meter 1"
TCP_PREFIX: Final = "tcp://"
METER_ANSWER_LIMIT_S: Final = 5.0
"""Time limit of each answer before the run; a slower meter counts as silent."""
METER_STOP_LIMIT_S: Final = 2.0
"""Time limit of each answer after the run."""
CLOCK_EXCHANGES: Final = 8
"""Clock exchanges before and after the run; the fastest counts."""
CLOCK_CHECK_PERIOD_S, CLOCK_CHECK_LIMIT_S = 10.0, 0.05
"""Time between two clock comparisons while it runs, and the time limit of each."""
MAX_CLOCK_DRIFT_NS: Final = 100_000_000
"""Largest allowed drift of the meter's clock during a run. Source: house rule; MLPerf Power allows
400 ms.
"""
MAX_SILENT_PERIODS, MIN_SILENCE_S = 5, 2.0
"""A meter without a sample for this long counts as silent."""
MAX_METER_LINE_BYTES: Final = 4096
MAX_METER_W: Final = 1e7


class MeterError(Exception):
    """A meter that cannot be read; the message is one sentence."""

    def __init__(self, sentence: str, *, failed: bool = False) -> None:
        super().__init__(replace_unprintable(sentence))
        self.t_ns = time.monotonic_ns()
        self.failed = failed
        """The meter is a program that ended with an error of its own."""


class LateAnswerError(MeterError):
    """A meter that did not answer in time."""


class MeterConnection:
    """The connection: a socket or a child's pipes, read line by line with a time limit."""

    def __init__(self, address: str) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        self.waiting = b""
        self.complaints = TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            if address.startswith(TCP_PREFIX):
                self.source, self.target = self.connect_socket(address)
            else:
                self.source, self.target = self.start_program(address)
        except (OSError, ValueError) as error:
            self.complaints.close()
            raise MeterError(
                f"cannot be reached: {getattr(error, 'strerror', None) or error}"
            ) from error

    def connect_socket(self, address: str) -> tuple[int, int]:
        """Connect to `tcp://host:port`."""
        host, _, port = address.removeprefix(TCP_PREFIX).rpartition(":")
        self.socket = socket.create_connection(
            (host.strip("[]"), int(port)), timeout=METER_ANSWER_LIMIT_S
        )
        return self.socket.fileno(), self.socket.fileno()

    def start_program(self, command: str) -> tuple[int, int]:
        """Start a program; `podium` means this installation's."""
        words = shlex.split(command)
        if not words:
            raise ValueError("no program is named")
        if words[:1] == ["podium"]:
            own = [sys.executable, "-P", "-m", "suite.cli"]
        else:
            own = words[:1]
        self.process = subprocess.Popen(
            [*own, *words[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        return self.process.stdout.fileno(), self.process.stdin.fileno()

    def send_line(self, text: str) -> None:
        """Send a line."""
        try:
            os.write(self.target, f"{text}\n".encode())
        except OSError as error:
            raise self.build_end_error() from error

    def build_end_error(self) -> MeterError:
        """Describe how the connection ended, with the last output of a program that failed."""
        code = 0
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                code = self.process.wait(timeout=1.0)
        if not code:
            return MeterError("closed the connection")
        self.complaints.seek(0)
        lines = (
            self.complaints.read(MAX_METER_LINE_BYTES * 16)
            .decode("utf-8", "replace")
            .strip()
            .splitlines()
        )
        return MeterError(
            f"ended with exit status {code}{f': {lines[-1][:200]}' if lines else ''}", failed=True
        )

    def read_line(self, wait_s: float) -> str | None:
        """Return the next line; None if none arrives in time. MeterError if the connection is
        closed, or the data is not text.
        """
        end = time.monotonic() + wait_s
        while b"\n" not in self.waiting:
            if not select.select([self.source], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            try:
                piece = os.read(self.source, MAX_METER_LINE_BYTES)
            except OSError as error:
                raise MeterError(f"closed the connection: {error.strerror}") from error
            if not piece:
                raise self.build_end_error()
            self.waiting += piece
            if len(self.waiting) > MAX_METER_LINE_BYTES * 16:
                raise MeterError("sends lines without end")
        line, _, self.waiting = self.waiting.partition(b"\n")
        return line[:MAX_METER_LINE_BYTES].decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Close the connection; kill a program that does not end."""
        self.complaints.close()
        if self.socket is not None:
            self.socket.close()
        if self.process is not None:
            try:
                self.process.communicate(timeout=1.0)
            except (subprocess.TimeoutExpired, OSError, ValueError):
                self.process.kill()
                self.process.communicate()


class Meter:
    """A meter that samples once opened; MeterError if it does not speak the protocol."""

    def __init__(self, address: str) -> None:
        """Greet it, compare clocks, start it and wait for its first sample."""
        self.address = address
        self.line = MeterConnection(address)
        self.queue: list[PowerReading] = []
        self.taken = self.owed = 0
        """Samples since `start`, and answers to `clock` that were late and may still come."""
        try:
            self.line.send_line(METER_PROTOCOL)
            self.traits = parse_meter_traits(self.wait_for_answer(METER_PROTOCOL))
            self.period_ms = parse_meter_period(self.traits)
            self.offset_ns, self.doubt_ns = min(
                (self.compare_clocks(METER_ANSWER_LIMIT_S) for _ in range(CLOCK_EXCHANGES)),
                key=lambda found: found[1],
            )
            self.line.send_line("start")
            self.wait_for_answer("ok")
            self.last_s = self.compared_s = time.monotonic()
            self.wait_for_first_sample()
        except BaseException:
            self.line.close()
            raise

    @property
    def channel(self) -> Channel:
        """Return its channel."""
        known = {
            key: self.traits[key] for key in ("uncertainty", "calibrated") if key in self.traits
        }
        facts = {
            "model": self.traits.get("name", "unknown"),
            "clock_offset_ns": self.offset_ns,
            "clock_doubt_ns": self.doubt_ns,
            **known,
        }
        return Channel(
            name="meter",
            source="meter",
            grade=Grade.METER,
            scope=self.traits.get("scope", SYSTEM),
            quantity=Quantity.POWER,
            facts=facts,
        )

    def wait_for_answer(self, beginning: str, wait_s: float | None = None) -> str:
        """Wait for an answer with this beginning; keep samples that arrive before it."""
        wait_s = METER_ANSWER_LIMIT_S if wait_s is None else wait_s
        end = time.monotonic() + wait_s
        while (line := self.line.read_line(max(0.0, end - time.monotonic()))) is not None:
            if line == beginning or line.startswith(f"{beginning} "):
                return line.removeprefix(beginning).strip()
            self.handle_line(line)
        raise LateAnswerError(f"does not answer within {wait_s:g} s")

    def compare_clocks(self, wait_s: float) -> tuple[int, int]:
        """Compare clocks once: the meter's minus this machine's, and half the round trip, in ns;
        Late if the answer is.
        """
        before = time.time_ns()
        self.line.send_line("clock")
        self.owed += 1
        text = ""
        while self.owed:  # late answers to earlier questions come first
            text = self.wait_for_answer("clock", wait_s)
            self.owed -= 1
        after = time.time_ns()
        try:
            return int(text) - (before + after) // 2, (after - before + 1) // 2
        except ValueError as error:
            raise MeterError(f"talks garbage: 'clock {text[:40]}'") from error

    def wait_for_first_sample(self) -> None:
        """Wait for the first sample."""
        wait_s = METER_ANSWER_LIMIT_S + 2 * self.period_ms / 1000
        end = time.monotonic() + wait_s
        while not self.queue:
            line = self.line.read_line(max(0.0, end - time.monotonic()))
            if line is None:
                raise MeterError(f"is silent: no sample within {wait_s:g} s")
            self.handle_line(line)

    def handle_line(self, line: str) -> None:
        """Handle an unsolicited line: a sample, an error, or a late answer."""
        words = line.split()
        if words[:1] == ["error"]:
            raise MeterError(f"says: {' '.join(words[1:])[:200]}")
        if words[:1] == ["clock"] and self.owed:
            self.owed -= 1
            return
        try:
            if words[0] != "sample" or not 3 <= len(words) <= 6:
                raise ValueError
            watts = float(words[2])
            if not 0 <= watts <= MAX_METER_W or not math.isfinite(watts):
                raise ValueError
            t_ns = int(words[1]) - self.offset_ns - (time.time_ns() - time.monotonic_ns())
            if not 0 <= t_ns < 1 << 63:
                raise ValueError
        except (ValueError, IndexError) as error:
            raise MeterError(f"talks garbage: '{line[:60]}'") from error
        ahead_ns = t_ns - time.monotonic_ns() - self.doubt_ns
        if ahead_ns > MAX_CLOCK_DRIFT_NS:
            raise MeterError(f"dates a sample {ahead_ns / 1e6:,.0f} ms ahead of its arrival")
        self.last_s, self.taken = time.monotonic(), self.taken + 1
        self.queue.append(PowerReading(t_ns=t_ns, value=round(watts * UW_PER_W)))

    def read_samples(self) -> Iterator[PowerReading]:
        """Yield the samples that have arrived; MeterError if it is silent, or its clock drifts."""
        while (line := self.line.read_line(0.0)) is not None:
            self.handle_line(line)
        now = time.monotonic()
        if now - self.compared_s > CLOCK_CHECK_PERIOD_S:
            self.compared_s = now
            self.check_clock_again()
        if now - self.last_s > max(MAX_SILENT_PERIODS * self.period_ms / 1000, MIN_SILENCE_S):
            raise MeterError(f"fell silent {now - self.last_s:.1f} s ago")
        yield from self.drain_queue()

    def drain_queue(self) -> list[PowerReading]:
        """Return the samples in the queue, once."""
        found, self.queue = self.queue, []
        return found

    def check_clock_again(self) -> None:
        """Compare clocks once while it runs; one slow answer does not mean that it is gone."""
        with suppress(LateAnswerError):
            self.check_clock_drift(*self.compare_clocks(CLOCK_CHECK_LIMIT_S))

    def check_clock_drift(self, offset_ns: int, doubt_ns: int) -> None:
        """Check the drift of the meter's clock."""
        if abs(offset_ns - self.offset_ns) - doubt_ns > MAX_CLOCK_DRIFT_NS:
            raise MeterError(
                f"its clock moved by {(offset_ns - self.offset_ns) / 1e6:+,.0f} ms during the run"
            )

    def finish(self) -> list[PowerReading]:
        """Compare clocks once more, stop the meter, and compare its count of samples; MeterError if
        they differ, or it does not answer.

        Return the samples that arrived meanwhile.
        """
        self.check_clock_drift(
            *min(
                (self.compare_clocks(METER_STOP_LIMIT_S) for _ in range(CLOCK_EXCHANGES)),
                key=lambda found: found[1],
            )
        )
        self.line.send_line("stop")
        reported_count = self.wait_for_answer("ok", METER_STOP_LIMIT_S)
        if reported_count != str(self.taken):
            raise MeterError(f"sent {reported_count[:20]} samples, and {self.taken} arrived")
        return self.drain_queue()

    def close(self) -> None:
        """Stop it, and close the connection."""
        with suppress(MeterError):
            self.line.send_line("stop")
        self.line.close()


def parse_meter_traits(text: str) -> Mapping[str, str]:
    """Parse the `key=value` words of a greeting."""
    return {
        key: value[:100]
        for key, equals, value in (word.partition("=") for word in text.split())
        if equals
    }


def parse_meter_period(found: Mapping[str, str]) -> int:
    """Read the meter's period in ms; MeterError for an invalid one."""
    text = found.get("period_ms", "1000")
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= 60_000:
        raise MeterError(f"has a period of {text[:20]} ms; 1 to 60,000 are possible")
    return int(text)
