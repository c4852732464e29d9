"""An external meter, read by the text protocol of docs/POWER.md over TCP or a program's standard
streams.

The fastest of eight exchanges measures the offset of the meter's clock to this machine's before the
run, and again after it; single ones
while it runs.
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

from suite.files.untrusted_files import printable
from suite.power import SYSTEM, Channel, Grade, PowerReading, Quantity

VERSION: Final = "podium-meter 1"
TCP: Final = "tcp://"
ANSWER_S: Final = 5.0
"""Time limit of each answer before the run; a slower meter counts as silent."""
STOP_S: Final = 2.0
"""Time limit of each answer after the run."""
EXCHANGES: Final = 8
"""Clock exchanges before and after the run; the fastest counts."""
AGAIN_S, AGAIN_WAIT_S = 10.0, 0.05
"""Time between two clock comparisons while it runs, and the time limit of each."""
DRIFT_NS: Final = 100_000_000
"""Largest allowed drift of the meter's clock during a run. Source: house rule; MLPerf Power allows
400 ms.
"""
SILENT_PERIODS, SILENT_S = 5, 2.0
"""A meter without a sample for this long counts as silent."""
LINE_LIMIT: Final = 4096
MOST_W: Final = 1e7
UW_PER_W: Final = 1e6
NS_PER_S: Final = 1e9


class MeterError(Exception):
    """A meter that cannot be read; the message is one sentence."""

    def __init__(self, sentence: str, *, failed: bool = False) -> None:
        super().__init__(printable(sentence))
        self.t_ns = time.monotonic_ns()
        self.failed = failed
        """The meter is a program that ended with an error of its own."""


class Late(MeterError):
    """A meter that did not answer in time."""


class Line:
    """The connection: a socket or a child's pipes, read line by line with a time limit."""

    def __init__(self, address: str) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        self.waiting = b""
        self.complaints = TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self.source, self.target = (
                self.connected(address) if address.startswith(TCP) else self.started(address)
            )
        except (OSError, ValueError) as error:
            self.complaints.close()
            raise MeterError(
                f"cannot be reached: {getattr(error, 'strerror', None) or error}"
            ) from error

    def connected(self, address: str) -> tuple[int, int]:
        """Connect to `tcp://host:port`."""
        host, _, port = address.removeprefix(TCP).rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S)
        return self.socket.fileno(), self.socket.fileno()

    def started(self, command: str) -> tuple[int, int]:
        """Start a program; `podium` means this installation's."""
        words = shlex.split(command)
        if not words:
            raise ValueError("no program is named")
        own = [sys.executable, "-P", "-m", "suite.cli"] if words[:1] == ["podium"] else words[:1]
        self.process = subprocess.Popen(
            [*own, *words[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        return self.process.stdout.fileno(), self.process.stdin.fileno()

    def say(self, words: str) -> None:
        """Send a line."""
        try:
            os.write(self.target, f"{words}\n".encode())
        except OSError as error:
            raise self.gone() from error

    def gone(self) -> MeterError:
        """Say how the connection ended: with the last words of a program that failed."""
        code = 0
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                code = self.process.wait(timeout=1.0)
        if not code:
            return MeterError("closed the connection")
        self.complaints.seek(0)
        lines = (
            self.complaints.read(LINE_LIMIT * 16).decode("utf-8", "replace").strip().splitlines()
        )
        return MeterError(
            f"ended with exit status {code}{f': {lines[-1][:200]}' if lines else ''}", failed=True
        )

    def next(self, wait_s: float) -> str | None:
        """Return the next line; None if none arrives in time. MeterError if the connection is
        closed, or the data is not text.
        """
        end = time.monotonic() + wait_s
        while b"\n" not in self.waiting:
            if not select.select([self.source], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            try:
                piece = os.read(self.source, LINE_LIMIT)
            except OSError as error:
                raise MeterError(f"closed the connection: {error.strerror}") from error
            if not piece:
                raise self.gone()
            self.waiting += piece
            if len(self.waiting) > LINE_LIMIT * 16:
                raise MeterError("sends lines without end")
        line, _, self.waiting = self.waiting.partition(b"\n")
        return line[:LINE_LIMIT].decode("utf-8", "replace").strip()

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
        self.line = Line(address)
        self.queue: list[PowerReading] = []
        self.taken = self.owed = 0
        """Samples since `start`, and answers to `clock` that were late and may still come."""
        try:
            self.line.say(VERSION)
            self.traits = traits(self.answer(VERSION))
            self.period_ms = period(self.traits)
            self.offset_ns, self.doubt_ns = min(
                (self.exchange(ANSWER_S) for _ in range(EXCHANGES)), key=lambda found: found[1]
            )
            self.line.say("start")
            self.answer("ok")
            self.last_s = self.compared_s = time.monotonic()
            self.await_first()
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

    def answer(self, beginning: str, wait_s: float | None = None) -> str:
        """Wait for an answer with this beginning; keep samples that arrive before it."""
        wait_s = ANSWER_S if wait_s is None else wait_s
        end = time.monotonic() + wait_s
        while (line := self.line.next(max(0.0, end - time.monotonic()))) is not None:
            if line == beginning or line.startswith(f"{beginning} "):
                return line.removeprefix(beginning).strip()
            self.take(line)
        raise Late(f"does not answer within {wait_s:g} s")

    def exchange(self, wait_s: float) -> tuple[int, int]:
        """Compare clocks once: the meter's minus this machine's, and half the round trip, in ns;
        Late if the answer is.
        """
        before = time.time_ns()
        self.line.say("clock")
        self.owed += 1
        text = ""
        while self.owed:  # late answers to earlier questions come first
            text = self.answer("clock", wait_s)
            self.owed -= 1
        after = time.time_ns()
        try:
            return int(text) - (before + after) // 2, (after - before + 1) // 2
        except ValueError as error:
            raise MeterError(f"talks garbage: 'clock {text[:40]}'") from error

    def await_first(self) -> None:
        """Wait for the first sample."""
        wait_s = ANSWER_S + 2 * self.period_ms / 1000
        end = time.monotonic() + wait_s
        while not self.queue:
            line = self.line.next(max(0.0, end - time.monotonic()))
            if line is None:
                raise MeterError(f"is silent: no sample within {wait_s:g} s")
            self.take(line)

    def take(self, line: str) -> None:
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
            if not 0 <= watts <= MOST_W or not math.isfinite(watts):
                raise ValueError
            t_ns = int(words[1]) - self.offset_ns - (time.time_ns() - time.monotonic_ns())
            if not 0 <= t_ns < 1 << 63:
                raise ValueError
        except (ValueError, IndexError) as error:
            raise MeterError(f"talks garbage: '{line[:60]}'") from error
        ahead_ns = t_ns - time.monotonic_ns() - self.doubt_ns
        if ahead_ns > DRIFT_NS:
            raise MeterError(f"dates a sample {ahead_ns / 1e6:,.0f} ms ahead of its arrival")
        self.last_s, self.taken = time.monotonic(), self.taken + 1
        self.queue.append(PowerReading(t_ns=t_ns, value=round(watts * UW_PER_W)))

    def samples(self) -> Iterator[PowerReading]:
        """Yield the samples that have arrived; MeterError if it is silent, or its clock drifts."""
        while (line := self.line.next(0.0)) is not None:
            self.take(line)
        now = time.monotonic()
        if now - self.compared_s > AGAIN_S:
            self.compared_s = now
            self.compare_again()
        if now - self.last_s > max(SILENT_PERIODS * self.period_ms / 1000, SILENT_S):
            raise MeterError(f"fell silent {now - self.last_s:.1f} s ago")
        yield from self.drained()

    def drained(self) -> list[PowerReading]:
        """Return the samples in the queue, once."""
        found, self.queue = self.queue, []
        return found

    def compare_again(self) -> None:
        """Compare clocks once while it runs; one slow answer does not mean that it is gone."""
        with suppress(Late):
            self.hold(*self.exchange(AGAIN_WAIT_S))

    def hold(self, offset_ns: int, doubt_ns: int) -> None:
        """Check the drift of the meter's clock."""
        if abs(offset_ns - self.offset_ns) - doubt_ns > DRIFT_NS:
            raise MeterError(
                f"its clock moved by {(offset_ns - self.offset_ns) / 1e6:+,.0f} ms during the run"
            )

    def finish(self) -> list[PowerReading]:
        """Compare clocks once more, stop the meter, and compare its count of samples; MeterError if
        they differ, or it does not answer.

        Return the samples that arrived meanwhile.
        """
        self.hold(
            *min((self.exchange(STOP_S) for _ in range(EXCHANGES)), key=lambda found: found[1])
        )
        self.line.say("stop")
        told = self.answer("ok", STOP_S)
        if told != str(self.taken):
            raise MeterError(f"sent {told[:20]} samples, and {self.taken} arrived")
        return self.drained()

    def close(self) -> None:
        """Stop it, and close the connection."""
        with suppress(MeterError):
            self.line.say("stop")
        self.line.close()


def traits(text: str) -> Mapping[str, str]:
    """Parse the `key=value` words of a greeting."""
    return {
        key: value[:100]
        for key, equals, value in (word.partition("=") for word in text.split())
        if equals
    }


def period(found: Mapping[str, str]) -> int:
    """Read the meter's period in ms; MeterError for an invalid one."""
    text = found.get("period_ms", "1000")
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= 60_000:
        raise MeterError(f"has a period of {text[:20]} ms; 1 to 60,000 are possible")
    return int(text)
