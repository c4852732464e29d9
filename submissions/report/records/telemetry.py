"""Telemetry of a run: `telemetry.jsonl`, an untrusted file, drawn on the run's time axis.

The first line contains the pair of clocks, the others `{"t": monotonic_ns, "host": {...}}`, `{"t":
..., "gpu0": {...}}` and `{"t": ..., "i": channel, "p": uW}`, or "e" with the uJ of a counter, which
is drawn as the mean power between two readings. A value that the machine does not provide is null
and is not drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeGuard

import msgspec

from compliance.logs.finite_numbers import MAX_LOGGED_NUMBER, is_finite_number
from submissions.report.document import Axis, Chart, Line
from suite.errors import JudgedError
from suite.files.untrusted_files import open_regular_file
from suite.human_numbers import format_whole_digits
from suite.units import NS_PER_MINUTE, NS_PER_MS, NS_PER_S, UW_PER_W

MAX_LINE_BYTES: Final = 1 << 20
MAX_TELEMETRY_LINES: Final = 2_000_000
"""Line limit: two weeks of one reading and one power reading per second; further lines are
ignored.
"""
MAX_LINE_POINTS: Final = 240
"""Maximum number of points in a line of a chart; more are averaged."""
MAX_TIME_NS: Final = 2**63
"""Largest time in ns; no clock returns a later one."""
MINUTES_AXIS_UNIT: Final = "minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryPanel:
    """One chart: the fields of some channels, with their labels."""

    id: str
    title: str
    axis: Axis
    fields: Mapping[str, str]
    """Field -> label of its line; empty if the channel's name suffices."""
    times: float = 1.0


TELEMETRY_PANELS: Final = (
    TelemetryPanel(
        id="cores",
        title="CPU utilisation",
        axis=Axis(name="share of the cores", unit="%", low=0.0, high=100.0),
        times=100.0,
        fields={"cpu_own": "this run", "cpu_others": "others", "steal": "stolen", "util": "in use"},
    ),
    TelemetryPanel(
        id="clocks",
        title="Clocks",
        axis=Axis(name="clock", unit="MHz", low=0.0),
        fields={"mhz": "cores, mean", "sm_mhz": "SM", "mem_mhz": "memory"},
    ),
    TelemetryPanel(
        id="temperature",
        title="Temperature",
        axis=Axis(name="temperature", unit="\u00b0C"),
        fields={"temp_c": "hottest sensor"},
    ),
    TelemetryPanel(
        id="power",
        title="Power",
        axis=Axis(name="power", unit="W", low=0.0),
        fields={"power_w": "board", "p": ""},
    ),
    TelemetryPanel(
        id="memory",
        title="Memory",
        axis=Axis(name="memory", unit="MiB", low=0.0),
        fields={"rss_mib": "this run", "free_mib": "free"},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTelemetry:
    """The readings of a run."""

    clocks_ns: tuple[int, int] | None
    """The same moment by the monotonic clock and in UTC."""
    channels: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]
    """Channel (host, gpu0) -> field -> pairs of monotonic ns and value."""


@dataclass(slots=True, kw_only=True)
class PowerChannel:
    """A power channel: its name and, for a counter, the last reading that was drawn."""

    name: str
    range_uj: int | None = None
    """Value at which a counter wraps."""
    period_ns: int = 0
    """Minimum time between two drawn readings of a counter, nine tenths of its period: it is
    updated in steps, and may be read twice in quick succession.
    """
    last: tuple[int, int] | None = None

    def compute_mean_watts(self, t: int, uj: int) -> tuple[int, float] | None:
        """Return the midpoint of the time since the last reading, and the mean power over it; None
        if that time is too short, or the counter fell.
        """
        before, self.last = self.last, self.last or (t, uj)
        if before is None or t - before[0] < max(self.period_ns, 1):
            return None
        self.last = (t, uj)
        if uj >= before[1] or self.range_uj is None:
            grown = uj - before[1]
        else:
            grown = uj - before[1] + self.range_uj
        if grown < 0:
            return None
        return ((t + before[0]) // 2, grown * NS_PER_S / UW_PER_W / (t - before[0]))


def read_telemetry_readings(path: Path) -> RecordedTelemetry | None:
    """Read the record; None if there is none, JudgedError if it is malformed."""
    if not path.is_file():
        return None
    readings: dict[str, dict[str, list[tuple[int, float]]]] = {}
    clocks: tuple[int, int] | None = None
    channels: dict[int, PowerChannel] = {}
    try:
        for line in iterate_telemetry_lines(path):
            if "clocks_ns" in line:
                begun, channels = parse_clocks_and_channels(line)
                clocks = clocks or begun
            add_line_readings(readings, line, channels)
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise JudgedError(f"{path.name} cannot be read") from error
    return RecordedTelemetry(clocks_ns=clocks, channels=readings)


def iterate_telemetry_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the lines; the last may be incomplete if a process was killed."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with open_regular_file(path) as stream:
        for _ in range(MAX_TELEMETRY_LINES):
            line = stream.readline(MAX_LINE_BYTES)
            if not line.endswith(b"\n"):
                return
            yield decode(line)


def parse_clocks_and_channels(
    line: Mapping[str, Any],
) -> tuple[tuple[int, int], dict[int, PowerChannel]]:
    """Parse the pair of clocks and the channels in the first line of a segment."""
    monotonic, utc = line["clocks_ns"]
    return (int(monotonic), int(utc)), {
        int(each["id"]): parse_power_channel(each) for each in line.get("channels", ())
    }


def parse_power_channel(channel: Mapping[str, Any]) -> PowerChannel:
    """Parse what is needed to draw a power channel."""
    range_uj, period_ms = channel.get("range_uj"), channel.get("period_ms")
    return PowerChannel(
        name=str(channel["name"]),
        range_uj=range_uj if isinstance(range_uj, int) else None,
        period_ns=period_ms * NS_PER_MS * 9 // 10 if isinstance(period_ms, int) else 0,
    )


def parse_power_reading(
    line: Mapping[str, Any], t: int, channels: Mapping[int, PowerChannel]
) -> tuple[str, tuple[int, float]] | None:
    """Return the name of a line's power channel, with time and watts; None if the line contains no
    power.
    """
    channel = None
    if isinstance(line.get("i"), int):
        channel = channels.get(line["i"])
    if "p" in line and is_telemetry_number(line["p"]):
        return (channel.name if channel else "meter", (t, line["p"] / UW_PER_W))
    drawn = None
    if channel and isinstance(line.get("e"), int):
        drawn = channel.compute_mean_watts(t, line["e"])
    if channel and drawn:
        return (channel.name, drawn)
    return None


def add_line_readings(
    readings: dict[str, dict[str, list[tuple[int, float]]]],
    line: Mapping[str, Any],
    channels: Mapping[int, PowerChannel],
) -> None:
    """Store the numbers of one line; of a list of clocks the mean is stored, of temperatures the
    highest.
    """
    t = line.get("t")
    if not isinstance(t, int):
        return
    if abs(t) >= MAX_TIME_NS:
        raise ValueError("a time out of range")
    if (drawn := parse_power_reading(line, t, channels)) is not None:
        readings.setdefault(drawn[0], {}).setdefault("p", []).append(drawn[1])
    for channel, fields in line.items():
        if not isinstance(fields, dict):
            continue
        for name, value in fields.items():
            number = reduce_telemetry_field(name, value)
            if number is not None:
                readings.setdefault(channel, {}).setdefault(name, []).append((t, number))


def is_telemetry_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number that can be drawn; ValueError for a whole number that no
    measurement gives.
    """
    if isinstance(value, int) and abs(value) >= MAX_LOGGED_NUMBER:
        raise ValueError("a number out of range")
    return is_finite_number(value)


def reduce_telemetry_field(name: str, value: object) -> float | None:
    """Reduce a field to one number; None if it contains none."""
    if isinstance(value, list):
        numbers = [float(each) for each in value if is_telemetry_number(each)]
        if not numbers:
            return None
        if name == "temp_c":
            return max(numbers)
        return fmean(numbers)
    if is_telemetry_number(value):
        return float(value)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSpan:
    """The drawn time span, by the monotonic clock."""

    begin_ns: int
    end_ns: int | None
    """None if unknown; readings after the run are then drawn too."""
    axis: Axis
    """In minutes or seconds; the same axis as in the run's other charts."""

    @property
    def unit_ns(self) -> float:
        """The axis's unit in ns."""
        if self.axis.unit == MINUTES_AXIS_UNIT:
            return NS_PER_MINUTE
        return NS_PER_S

    def has_time(self, t: int) -> bool:
        """Return whether a reading was taken during the run."""
        return self.begin_ns <= t and (self.end_ns is None or t <= self.end_ns)


def compute_readings_span(telemetry: RecordedTelemetry, unit: str) -> DrawnSpan | None:
    """Return the span of all readings, for a run whose start is unknown; None if there are no
    readings.
    """
    every = [
        t for fields in telemetry.channels.values() for points in fields.values() for t, _ in points
    ]
    if not every:
        return None
    return DrawnSpan(
        begin_ns=min(every),
        end_ns=None,
        axis=Axis(name="time since the first reading", unit=unit, low=0.0),
    )


def build_telemetry_charts(
    telemetry: RecordedTelemetry, span: DrawnSpan, where: str
) -> Iterator[Chart]:
    """Draw the readings that were taken during the run."""
    for panel in TELEMETRY_PANELS:
        drawn = tuple(build_panel_lines(telemetry, panel, span))
        if drawn:
            words = "; ".join(
                f"{line.name}: mean {format_whole_digits(fmean(y for _, y in line.points))},"
                f" highest {format_whole_digits(max(y for _, y in line.points))}"
                for line in drawn
            )
            text = f"{panel.title} of the machine during the run, in {panel.axis.unit}. {words}."
            yield Chart(
                id=f"{panel.id}-{where}",
                title=panel.title,
                description=text,
                x=span.axis,
                y=panel.axis,
                lines=drawn,
            )


def format_missing_panels(drawn: Sequence[Chart]) -> str:
    """List the panels without any reading; empty if all have readings."""
    known = {chart.title for chart in drawn}
    names = [
        panel.title if position == 0 else panel.title.casefold()
        for position, panel in enumerate(
            each for each in TELEMETRY_PANELS if each.title not in known
        )
    ]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def build_panel_lines(
    telemetry: RecordedTelemetry, panel: TelemetryPanel, span: DrawnSpan
) -> Iterator[Line]:
    """Yield one line per channel and field of a panel."""
    several = len(telemetry.channels) > 1
    for channel, fields in telemetry.channels.items():
        for name, words in panel.fields.items():
            points = average_neighbouring_points(
                [
                    ((t - span.begin_ns) / span.unit_ns, value * panel.times)
                    for t, value in fields.get(name, ())
                    if span.has_time(t)
                ]
            )
            if points:
                yield Line(
                    name=(
                        ", ".join(filter(None, (channel, words))) if several or not words else words
                    ),
                    points=tuple(points),
                )


def average_neighbouring_points(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Average neighbouring points if there are more than a chart can show."""
    step = 1
    if points:
        step = -(-len(points) // MAX_LINE_POINTS)
    groups = (points[start : start + step] for start in range(0, len(points), step))
    return [(fmean(x for x, _ in group), fmean(y for _, y in group)) for group in groups]
