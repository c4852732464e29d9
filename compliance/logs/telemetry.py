"""Read `telemetry.jsonl`: the state of host and GPUs during a run, and the readings of power
sources, in segments from channels to end.

Source of the format: harness/machine/telemetry. An interrupted run has one segment per
continuation.
"""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, BinaryIO, Final, Literal, TypeAlias

import msgspec

from compliance.logs.source_file import ParseErrorKind, SourceFile, decode_strict_json
from suite.files.untrusted_files import open_regular_file

MAX_SAMPLER_LINE_BYTES: Final = 64 << 10
"""Bytes; a host with a thousand cores needs a tenth."""
MAX_SAMPLER_LINES: Final = 4_000_000
"""Ten hours of ten channels at 10 Hz; later lines are ignored."""

ShareNumber: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
PositiveNumber: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
CountNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
ClockNanoseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class HostState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The host over the time since the last reading; None for values that it does not provide."""

    cpu_own: ShareNumber | None
    """Share of the cores used by the run's processes, 0-1; the next two are also shares of the
    cores.
    """
    cpu_others: ShareNumber | None
    steal: ShareNumber | None
    psi_some: ShareNumber | None
    """Share of the time in which a task waited for a core."""
    swap_in_bytes: CountNumber | None
    mhz: tuple[PositiveNumber, ...] | None
    """Frequency of each core; None between two readings, as for the next field."""
    temp_c: tuple[float, ...] | None
    rss_mib: PositiveNumber
    """Memory used by the run's processes."""
    free_mib: PositiveNumber
    """Free memory of the host."""


class GpuState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU; None for values that it does not provide."""

    util: ShareNumber | None
    sm_mhz: PositiveNumber | None
    mem_mhz: PositiveNumber | None
    temp_c: float | None
    power_w: PositiveNumber | None
    event_reasons: CountNumber | None
    """NVML's bit mask of reasons for reduced clocks."""
    ecc: tuple[CountNumber | None, CountNumber | None]
    """ECC errors since the driver was loaded: corrected, and uncorrected."""


class TelemetryChannel(msgspec.Struct, frozen=True, kw_only=True):
    """A sampled channel; its other facts are informational."""

    id: CountNumber
    name: str
    kind: Literal["state", "energy", "power"]
    governor: str | None = None
    """Frequency governor of the host's cores."""
    cores: Any = None
    """Hardware threads of the host, if it is one."""
    model: Any = None
    """What a GPU's driver calls it, and the name of a meter."""


class SegmentHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """First line of a segment."""

    telemetry: Literal[1]
    channels: tuple[TelemetryChannel, ...]
    clocks_ns: tuple[ClockNanoseconds, ClockNanoseconds]
    """Monotonic clock and UTC at the same moment."""


class SegmentEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The counters in the last line of a segment; one number per channel if there are several."""

    readings: tuple[CountNumber, ...]
    missed: tuple[CountNumber, ...]
    late: CountNumber
    longest_gap_ms: CountNumber
    cpu_ms: CountNumber
    """CPU time of the sampler itself."""
    clocks_ns: tuple[ClockNanoseconds, ClockNanoseconds]


ChannelState: TypeAlias = HostState | GpuState | dict[str, Any]
TELEMETRY_LINE_DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
SEGMENT_HEAD_DECODER: Final = msgspec.json.Decoder(SegmentHead)
SEGMENT_END_DECODER: Final = msgspec.json.Decoder(SegmentEnd)
COUNT_DECODER: Final = msgspec.json.Decoder(CountNumber)
HOST_STATE_DECODER: Final = msgspec.json.Decoder(HostState)
GPU_STATE_DECODER: Final = msgspec.json.Decoder(GpuState)
OTHER_STATE_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
POWER_VALUE_KEYS: Final = {"energy": "e", "power": "p"}


@dataclass(slots=True, kw_only=True)
class SampledSegment:
    """One segment: the lines from a head on."""

    head: SegmentHead
    line: int
    """Line of the head, from 1."""
    states: dict[str, list[tuple[int, int, ChannelState]]] = field(default_factory=dict)
    """Channel name -> time (monotonic ns), line, state."""
    values: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Channel number -> time, line, uJ or uW."""
    end: SegmentEnd | None = None
    last_line: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Count the readings of each channel."""
        return tuple(
            len(self.states.get(each.name, ())) + len(self.values.get(each.id, ()))
            for each in self.head.channels
        )

    def convert_to_utc_ns(self, t_ns: int) -> int:
        """Convert a time of this segment to UTC."""
        return t_ns - self.head.clocks_ns[0] + self.head.clocks_ns[1]

    @property
    def clock_step_ns(self) -> int | None:
        """Return by how much UTC moved against the monotonic clock; None without a last line."""
        if self.end is None:
            return None
        return self.end.clocks_ns[1] - self.convert_to_utc_ns(self.end.clocks_ns[0])

    @property
    def last_ns(self) -> int:
        """Return the time of the last line, or of the last reading without one: monotonic ns."""
        if self.end is not None:
            return self.end.clocks_ns[0]
        times = (t for _, readings in self.iterate_channel_times() for t, _ in readings)
        return max(times, default=self.head.clocks_ns[0])

    @property
    def power_period_ns(self) -> int:
        """Return the usual time between two readings of the slowest power source; 0 without one."""
        usual = (
            statistics.median_low([later[0] - earlier[0] for earlier, later in pairwise(readings)])
            for readings in self.values.values()
            if len(readings) > 1
        )
        return max(usual, default=0)

    def iterate_channel_times(self) -> Iterator[tuple[str, list[tuple[int, int]]]]:
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
class TelemetryFile:
    """One telemetry file."""

    source: SourceFile
    segments: list[SampledSegment] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        """Return whether the lines have a sampler's form."""
        return bool(self.segments) and not self.source.parse_errors


def read_telemetry_file(source: SourceFile) -> TelemetryFile:
    """Read a telemetry file; problems in its lines are recorded as parse errors of its source."""
    telemetry = TelemetryFile(source=source)
    try:
        with open_regular_file(source.path) as stream:
            for number, text in iterate_sampler_lines(stream, source):
                parse_telemetry_line(telemetry, number, text)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return telemetry
    if not telemetry.segments and not source.parse_errors:
        source.add_parse_error(
            ParseErrorKind.RECORD,
            "no line that names channels",
            "channels first, then readings, then their counts",
        )
    return telemetry


def iterate_sampler_lines(stream: BinaryIO, source: SourceFile) -> Iterator[tuple[int, bytes]]:
    """Yield the lines; unterminated, overlong and excess lines are parse errors."""
    number = 0
    while text := stream.readline(MAX_SAMPLER_LINE_BYTES + 1):
        number += 1
        if number > MAX_SAMPLER_LINES:
            source.add_parse_error(
                ParseErrorKind.UNREADABLE,
                f"more than {MAX_SAMPLER_LINES} lines",
                f"at most {MAX_SAMPLER_LINES} lines",
                number,
            )
            return
        if not text.endswith(b"\n"):
            long = len(text) > MAX_SAMPLER_LINE_BYTES
            source.add_parse_error(
                ParseErrorKind.CUT,
                f"{'a line of more than' if long else 'a last line of'}"
                f" {min(len(text), MAX_SAMPLER_LINE_BYTES)} bytes",
                "lines with an end",
                number,
            )
            return
        yield number, text


def parse_telemetry_line(telemetry: TelemetryFile, number: int, text: bytes) -> None:
    """Parse one line into the last segment."""
    fields = decode_strict_json(telemetry.source, TELEMETRY_LINE_DECODER, text, number)
    if fields is None:
        return
    if "telemetry" in fields:
        head = decode_strict_json(telemetry.source, SEGMENT_HEAD_DECODER, text, number)
        if head and has_valid_channels(telemetry.source, head, number):
            telemetry.segments.append(SampledSegment(head=head, line=number, last_line=number))
        return
    segment = None
    if telemetry.segments:
        segment = telemetry.segments[-1]
    if segment is None or segment.end is not None:
        telemetry.source.add_parse_error(
            ParseErrorKind.RECORD,
            "a line outside a segment",
            "lines between the one that names channels and the one that counts them",
            number,
        )
        return
    segment.last_line = number
    if fields.keys() == {"end"}:
        segment.end = decode_strict_json(
            telemetry.source, SEGMENT_END_DECODER, bytes(fields["end"]), number
        )
    else:
        store_channel_reading(telemetry.source, segment, number, fields)


def has_valid_channels(source: SourceFile, head: SegmentHead, number: int) -> bool:
    """Return whether channels are numbered from 0 and have distinct names."""
    valid = [each.id for each in head.channels] == list(range(len(head.channels))) and len(
        {each.name for each in head.channels}
    ) == len(head.channels)
    if not valid:
        source.add_parse_error(
            ParseErrorKind.SHAPE,
            "channels that are not numbered from 0, or share a name",
            "each channel once",
            number,
        )
    return valid


def select_state_decoder(channel: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a channel's states, by its name."""
    if channel == "host":
        return HOST_STATE_DECODER
    if channel.startswith("gpu"):
        return GPU_STATE_DECODER
    return OTHER_STATE_DECODER


def store_channel_reading(
    source: SourceFile, segment: SampledSegment, number: int, fields: Mapping[str, msgspec.Raw]
) -> None:
    """Parse one reading."""
    t = None
    if "t" in fields:
        t = decode_strict_json(source, COUNT_DECODER, bytes(fields["t"]), number)
    names = fields.keys() - {"t"}
    channel = next(
        (each for each in segment.head.channels if each.kind == "state" and names == {each.name}),
        None,
    )
    if t is not None and channel is not None:
        decoder = select_state_decoder(channel.name)
        state = decode_strict_json(source, decoder, bytes(fields[channel.name]), number)
        if state is not None:
            segment.states.setdefault(channel.name, []).append((t, number, state))
        return
    value = None
    if t is not None:
        value = parse_numbered_value(source, segment, number, fields)
    if t is None or value is None:
        source.add_parse_error(
            ParseErrorKind.SHAPE,
            f"a line with {', '.join(sorted(fields)) or 'nothing'}",
            "t and one channel's state, or t, i and e or p",
            number,
        )
    else:
        segment.values.setdefault(value[0], []).append((t, number, value[1]))


def parse_numbered_value(
    source: SourceFile, segment: SampledSegment, number: int, fields: Mapping[str, msgspec.Raw]
) -> tuple[int, int] | None:
    """Parse number and value of an energy or power channel; None if the line belongs to no such
    channel.
    """
    which = None
    if "i" in fields:
        which = decode_strict_json(source, COUNT_DECODER, bytes(fields["i"]), number)
    channels = segment.head.channels
    key = None
    if which is not None and which < len(channels):
        key = POWER_VALUE_KEYS.get(channels[which].kind)
    if which is None or key is None or fields.keys() != {"t", "i", key}:
        return None
    value = decode_strict_json(source, COUNT_DECODER, bytes(fields[key]), number)
    if value is None:
        return None
    return (which, value)
