"""Reads `telemetry.jsonl`: the state of host and GPUs during a run, and the readings of power
sources, in segments from channels to end.

Source of the format: harness/machine/telemetry. An interrupted run has one segment per
continuation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, BinaryIO, Final, Literal, TypeAlias

import msgspec

from compliance.logs.source_file import Kind, SourceFile, decode
from suite.files.untrusted_files import opened

LINE_LIMIT: Final = 64 << 10
"""Bytes; a host with a thousand cores needs a tenth."""
LINES_LIMIT: Final = 4_000_000
"""Ten hours of ten channels at 10 Hz; later lines are ignored."""
VERSION: Final = 1

Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class HostState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The host over the time since the last reading; None for values that it does not provide."""

    cpu_own: Share | None
    """Share of the cores used by the run's processes, 0-1; the next two are also shares of the
    cores.
    """
    cpu_others: Share | None
    steal: Share | None
    psi_some: Share | None
    """Share of the time in which a task waited for a core."""
    swap_in_bytes: Count | None
    mhz: tuple[Positive, ...] | None
    """Frequency of each core; None between two readings, as for the next field."""
    temp_c: tuple[float, ...] | None
    rss_mib: Positive
    """Memory used by the run's processes."""
    free_mib: Positive
    """Free memory of the host."""


class GpuState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU; None for values that it does not provide."""

    util: Share | None
    sm_mhz: Positive | None
    mem_mhz: Positive | None
    temp_c: float | None
    power_w: Positive | None
    event_reasons: Count | None
    """NVML's bit mask of reasons for reduced clocks."""
    ecc: tuple[Count | None, Count | None]
    """ECC errors since the driver was loaded: corrected, and uncorrected."""


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A sampled channel; its other facts are informational."""

    id: Count
    name: str
    kind: Literal["state", "energy", "power"]
    governor: str | None = None
    """Frequency governor of the host's cores."""
    cores: Any = None
    """Hardware threads of the host, if it is one."""


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """First line of a segment."""

    telemetry: Literal[1]
    channels: tuple[Channel, ...]
    clocks_ns: tuple[Moment, Moment]
    """Monotonic clock and UTC at the same moment."""


class End(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The counters in the last line of a segment; one number per channel if there are several."""

    readings: tuple[Count, ...]
    missed: tuple[Count, ...]
    late: Count
    longest_gap_ms: Count
    cpu_ms: Count
    """CPU time of the sampler itself."""
    clocks_ns: tuple[Moment, Moment]


State: TypeAlias = HostState | GpuState | dict[str, Any]
LINE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
HEAD: Final = msgspec.json.Decoder(Head)
END: Final = msgspec.json.Decoder(End)
TIME: Final = msgspec.json.Decoder(Count)
HOST: Final = msgspec.json.Decoder(HostState)
GPU: Final = msgspec.json.Decoder(GpuState)
OTHER: Final = msgspec.json.Decoder(dict[str, Any])
VALUE_KEYS: Final = {"energy": "e", "power": "p"}


@dataclass(slots=True, kw_only=True)
class Segment:
    """One segment: the lines from a head on."""

    head: Head
    line: int
    """Line of the head, from 1."""
    states: dict[str, list[tuple[int, int, State]]] = field(default_factory=dict)
    """Channel name -> time (monotonic ns), line, state."""
    values: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Channel number -> time, line, uJ or uW."""
    end: End | None = None
    last_line: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Count the readings of each channel."""
        return tuple(
            len(self.states.get(each.name, ())) + len(self.values.get(each.id, ()))
            for each in self.head.channels
        )

    def utc_ns(self, t_ns: int) -> int:
        """Convert a time of this segment to UTC."""
        return t_ns - self.head.clocks_ns[0] + self.head.clocks_ns[1]

    def times(self) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Yield the name of each channel with its times and lines."""
        names = {each.id: each.name for each in self.head.channels}
        yield from (
            (name, [(t, line) for t, line, _ in readings]) for name, readings in self.states.items()
        )
        yield from (
            (names[number], [(t, line) for t, line, _ in readings])
            for number, readings in self.values.items()
        )


@dataclass(slots=True, kw_only=True)
class Telemetry:
    """One telemetry file."""

    source: SourceFile
    segments: list[Segment] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether the lines are such as a sampler writes."""
        return bool(self.segments) and not self.source.flaws


def read(source: SourceFile) -> Telemetry:
    """Read a telemetry file; problems in its lines are recorded as flaws of its source."""
    found = Telemetry(source=source)
    try:
        with opened(source.path) as stream:
            for number, text in lines(stream, source):
                take(found, number, text)
    except (OSError, ValueError) as error:
        source.unreadable(error)
        return found
    if not found.segments and not source.flaws:
        source.add(
            Kind.RECORD,
            "no line that names channels",
            "channels first, then readings, then their counts",
        )
    return found


def lines(stream: BinaryIO, source: SourceFile) -> Iterator[tuple[int, bytes]]:
    """Yield the lines; unterminated, overlong and excess lines are flaws."""
    number = 0
    while text := stream.readline(LINE_LIMIT + 1):
        number += 1
        if number > LINES_LIMIT:
            source.add(
                Kind.UNREADABLE,
                f"more than {LINES_LIMIT} lines",
                f"at most {LINES_LIMIT} lines",
                number,
            )
            return
        if not text.endswith(b"\n"):
            long = len(text) > LINE_LIMIT
            source.add(
                Kind.CUT,
                f"{'a line of more than' if long else 'a last line of'}"
                f" {min(len(text), LINE_LIMIT)} bytes",
                "lines that end",
                number,
            )
            return
        yield number, text


def take(found: Telemetry, number: int, text: bytes) -> None:
    """Parse one line into the last segment."""
    fields = decode(found.source, LINE, text, number)
    if fields is None:
        return
    if "telemetry" in fields:
        head = decode(found.source, HEAD, text, number)
        if head and in_order(found.source, head, number):
            found.segments.append(Segment(head=head, line=number, last_line=number))
        return
    segment = found.segments[-1] if found.segments else None
    if segment is None or segment.end is not None:
        found.source.add(
            Kind.RECORD,
            "a line outside a segment",
            "lines between the one that names channels and the one that counts them",
            number,
        )
        return
    segment.last_line = number
    if fields.keys() == {"end"}:
        segment.end = decode(found.source, END, bytes(fields["end"]), number)
    else:
        reading(found.source, segment, number, fields)


def in_order(source: SourceFile, head: Head, number: int) -> bool:
    """Return whether channels are numbered from 0 and have distinct names."""
    good = [each.id for each in head.channels] == list(range(len(head.channels))) and len(
        {each.name for each in head.channels}
    ) == len(head.channels)
    if not good:
        source.add(
            Kind.SHAPE,
            "channels that are not numbered from 0, or of one name",
            "each channel once",
            number,
        )
    return good


def reading(
    source: SourceFile, segment: Segment, number: int, fields: Mapping[str, msgspec.Raw]
) -> None:
    """Parse one reading."""
    t = decode(source, TIME, bytes(fields["t"]), number) if "t" in fields else None
    names = fields.keys() - {"t"}
    channel = next(
        (each for each in segment.head.channels if each.kind == "state" and names == {each.name}),
        None,
    )
    if t is not None and channel is not None:
        kind: msgspec.json.Decoder[Any] = (
            HOST if channel.name == "host" else GPU if channel.name.startswith("gpu") else OTHER
        )
        state = decode(source, kind, bytes(fields[channel.name]), number)
        if state is not None:
            segment.states.setdefault(channel.name, []).append((t, number, state))
        return
    value = numbered(source, segment, number, fields) if t is not None else None
    if t is None or value is None:
        source.add(
            Kind.SHAPE,
            f"a line of {', '.join(sorted(fields)) or 'nothing'}",
            "t and one channel's state, or t, i and e or p",
            number,
        )
    else:
        segment.values.setdefault(value[0], []).append((t, number, value[1]))


def numbered(
    source: SourceFile, segment: Segment, number: int, fields: Mapping[str, msgspec.Raw]
) -> tuple[int, int] | None:
    """Parse number and value of an energy or power channel; None if the line belongs to no such
    channel.
    """
    which = decode(source, TIME, bytes(fields["i"]), number) if "i" in fields else None
    channels = segment.head.channels
    key = (
        VALUE_KEYS.get(channels[which].kind)
        if which is not None and which < len(channels)
        else None
    )
    if which is None or key is None or fields.keys() != {"t", "i", key}:
        return None
    value = decode(source, TIME, bytes(fields[key]), number)
    return None if value is None else (which, value)
