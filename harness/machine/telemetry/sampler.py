"""The sampler's own process: reads each source when it is due, and writes lines, until its parent
stops it or is gone; then waits for the next run.
"""

import json
import math
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from io import BufferedWriter
from pathlib import Path
from typing import Any, Final

from harness.machine.telemetry.sampled import (
    ChannelKind,
    FinishingSource,
    SampledReading,
    SampledSource,
    SamplingPlan,
    SourceOpening,
)
from suite.files.layout import PARTIAL_SUFFIX, sync_to_disk
from suite.units import NS_PER_MS, NS_PER_S

TELEMETRY_VERSION: Final = 1
"""File format version."""
READING_KEYS: Final = {ChannelKind.ENERGY: "e", ChannelKind.POWER: "p"}
READY, DONE = b"ready\n", b"done\n"
"""Answers to the parent: sampling; and the file is closed, the next plan may come."""
PARENT_CHECK_PERIOD_S: Final = 1.0
"""Between two looks, while idle, at whether the parent lives."""
STOP, PAUSE = b"stop\n", b"pause\n"
"""Messages of the parent: the file is complete; or the run was interrupted, and its file continues
when it resumes. End of file: the parent is gone.
"""


class ParentProcess:
    """The process that started this one, at the other end of standard input."""

    def __init__(self) -> None:
        self.pid, self.pipe = os.getppid(), sys.stdin.fileno()

    @property
    def is_gone(self) -> bool:
        """Return whether it was killed: a process that it had forked may keep the pipe open."""
        return os.getppid() != self.pid

    def has_message(self, wait_s: float) -> bool:
        """Wait for a message, or the pipe's end."""
        return bool(select.select([self.pipe], [], [], max(0.0, wait_s))[0])

    def read_line(self) -> bytes:
        """Wait for a line and read it, b"" if the parent is gone; byte by byte: a message that
        follows belongs to the next read.
        """
        while not self.has_message(PARENT_CHECK_PERIOD_S):
            if self.is_gone:
                return b""
        line = b""
        while not line.endswith(b"\n") and (letter := os.read(self.pipe, 1)):
            line += letter
        return line


@dataclass(slots=True, kw_only=True)
class SourceSchedule:
    """Schedule and statistics of a source."""

    source: SampledSource
    first: int
    """Channel id in the file of the source's first channel."""
    due_ns: int
    readings: list[int]
    missed: int = 0
    """Failed readings."""
    late: int = 0
    """Readings that began at least a whole period late."""
    last_ns: int = 0
    longest_ns: int = 0
    """Longest time between two readings."""
    names: list[str] = field(default_factory=list)
    kinds: list[ChannelKind] = field(default_factory=list)

    @property
    def period_ns(self) -> int:
        """Return the time between two readings."""
        return self.source.period_ms * NS_PER_MS


class SegmentSampler:
    """Writes one segment of a telemetry file."""

    def __init__(self, stream: BufferedWriter, sources: Sequence[SampledSource]) -> None:
        self.stream = stream
        self.began_s = time.process_time()
        self.turns: list[SourceSchedule] = []
        now, first = time.monotonic_ns(), 0
        for source in sources:
            channels = source.channels
            names, kinds = (
                [channel.name for channel in channels],
                [channel.kind for channel in channels],
            )
            # counters and power need a reading before the run
            due_ns = now + (source.period_ms * NS_PER_MS if ChannelKind.STATE in kinds[:1] else 0)
            self.turns.append(
                SourceSchedule(
                    source=source,
                    first=first,
                    due_ns=due_ns,
                    readings=[0] * len(channels),
                    names=names,
                    kinds=kinds,
                )
            )
            first += len(channels)

    def write_first_line(self) -> None:
        """Write the first line."""
        channels = [channel for turn in self.turns for channel in turn.source.channels]
        listed = [
            {"id": number, "name": each.name, "kind": each.kind.value, **each.facts}
            for number, each in enumerate(channels)
        ]
        self.write_line(
            {"telemetry": TELEMETRY_VERSION, "channels": listed, "clocks_ns": read_clocks_ns()}
        )
        self.stream.flush()

    def sample_until_message(self, parent: ParentProcess) -> bytes:
        """Sample until the parent sends a message; return it, b"" if the parent is gone."""
        while True:
            due_ns = min(turn.due_ns for turn in self.turns)
            if parent.has_message((due_ns - time.monotonic_ns()) / NS_PER_S):
                return os.read(parent.pipe, 64)
            if parent.is_gone:
                return b""
            self.sample_due_sources(time.monotonic_ns())

    def sample_due_sources(self, now_ns: int) -> None:
        """Read the sources that are due."""
        for turn in self.turns:
            if turn.due_ns <= now_ns:
                self.record_source(turn)
                turn.late += now_ns >= turn.due_ns + turn.period_ns
                turn.due_ns = max(turn.due_ns + turn.period_ns, now_ns + 1)
        self.stream.flush()  # to detect a full disk early, and lose little when killed

    def record_source(
        self, turn: SourceSchedule, read: Callable[[], Iterable[SampledReading]] | None = None
    ) -> None:
        """Read one source, and write its lines."""
        try:
            readings = list((read or turn.source.read)())
        except Exception:  # a failing source loses only its own readings
            turn.missed += 1
            return
        for reading in readings:
            number = reading.channel
            turn.readings[number] += 1
            kind = turn.kinds[number]
            if kind is ChannelKind.STATE:
                fields = {turn.names[number]: replace_non_finite(reading.value)}
            else:
                fields = {"i": turn.first + number, READING_KEYS[kind]: reading.value}
            self.write_line({"t": reading.t_ns, **fields})
        if readings:
            turn.longest_ns = max(
                turn.longest_ns, readings[-1].t_ns - turn.last_ns if turn.last_ns else 0
            )
            turn.last_ns = readings[-1].t_ns

    def write_last_line(self) -> None:
        """Read everything once more, and write the last line."""
        for turn in self.turns:
            self.record_source(turn)
            if isinstance(turn.source, FinishingSource):
                self.record_source(turn, turn.source.finish)
        end = {
            "readings": [count for turn in self.turns for count in turn.readings],
            "missed": [turn.missed for turn in self.turns for _ in turn.readings],
            "late": sum(turn.late for turn in self.turns),
            "longest_gap_ms": max((turn.longest_ns for turn in self.turns), default=0) // NS_PER_MS,
            "cpu_ms": round((time.process_time() - self.began_s) * 1000),
            "clocks_ns": read_clocks_ns(),
        }
        self.write_line({"end": end})

    def write_line(self, document: Mapping[str, Any]) -> None:
        """Write one line."""
        self.stream.write(
            json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        )


def replace_non_finite(value: Any) -> Any:
    """Replace non-finite numbers with null, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: replace_non_finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(each) for each in value]
    return value


def read_clocks_ns() -> list[int]:
    """Read the monotonic clock and UTC together: the closest of three pairs."""
    pairs = []
    for _ in range(3):
        before, utc, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        pairs.append((after - before, [(before + after) // 2, utc]))
    return min(pairs)[1]


def parse_sampling_plan(line: bytes) -> SamplingPlan:
    """Read a plan as process.py writes it; without msgspec, whose import is a quarter of a
    sampler's start.
    """
    document = json.loads(line)
    return SamplingPlan(
        **{**document, "sources": tuple(SourceOpening(**each) for each in document["sources"])}
    )


def open_sampled_sources(openings: Sequence[SourceOpening]) -> list[SampledSource]:
    """Open the sources; omit those that this machine does not have."""
    found = []
    for opening in openings:
        module, _, function = opening.function.partition(":")
        source = getattr(import_module(module), function)(**opening.options)
        found += [source] if source is not None else []
    return found


def cut_torn_line(path: Path) -> None:
    """Remove a killed sampler's incomplete last line."""
    content = path.read_bytes()
    os.truncate(path, content.rfind(b"\n") + 1)


def run_sampling_plan(plan: SamplingPlan, parent: ParentProcess, answer: int) -> bytes:
    """Sample into `<path>.partial`; sync and rename it when the parent reports the end of the run.
    Return its message. OSError if the disk is full.
    """
    path = Path(plan.path)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    if plan.goes_on and path.exists():
        path.replace(partial)
    if plan.goes_on and partial.exists():
        cut_torn_line(partial)
    sources = open_sampled_sources(plan.sources)
    with partial.open("ab" if plan.goes_on else "wb") as stream:
        sampler = SegmentSampler(stream, sources)
        sampler.write_first_line()
        sampler.sample_due_sources(time.monotonic_ns())
        os.write(answer, READY)
        message = sampler.sample_until_message(parent)
        if message:
            sampler.write_last_line()
    for source in sources:
        source.close()
    if message == STOP:
        sync_to_disk(partial)
        partial.replace(path)
        sync_to_disk(path.parent)
    return message


def serve_sampling_plans() -> None:
    """Carry out one plan after another, each a line of standard input; report any failure in one
    line on standard error.
    """
    parent, answer = ParentProcess(), os.dup(1)
    os.dup2(2, 1)  # what sources print, or programs that they start, is no answer
    try:
        while (line := parent.read_line()) and run_sampling_plan(
            parse_sampling_plan(line), parent, answer
        ):
            os.write(answer, DONE)
    except OSError as error:
        sys.exit(error.strerror or str(error))
