"""Telemetry of a run: `telemetry.jsonl`, an untrusted file, drawn on the run's time axis.

The first line has the pair of clocks, the others `{"t": monotonic_ns, "host": {...}}`, `{"t": ..., "gpu0": {...}}` and `{"t": ..., "i": channel, "p": uW}`.
A value that the machine does not provide is null and is not drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec

from compliance.documents.podium.training import finite
from submissions.report.document import Axis, Chart, Line
from suite.errors import JudgedError
from suite.files.untrusted_files import opened

LINE_LIMIT: Final = 1 << 20
LINES_LIMIT: Final = 2_000_000
"""Line limit: two weeks of one reading and one power reading per second; further lines are ignored."""
POINTS_MOST: Final = 240
"""Maximum number of points in a line of a chart; more are averaged."""
NS_PER_S: Final = 1e9
NS_PER_MIN: Final = 60e9
UW_PER_W: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart: the fields of some channels, with their labels."""

    id: str
    title: str
    axis: Axis
    fields: Mapping[str, str]
    """Field -> label of its line."""
    times: float = 1.0


PANELS: Final = (
    Panel(id="cores", title="Use of the cores", axis=Axis(name="share of the cores", unit="%", low=0.0, high=100.0), times=100.0,
          fields={"cpu_own": "this run", "cpu_others": "others", "steal": "stolen", "util": "in use"}),
    Panel(id="clocks", title="Clocks", axis=Axis(name="clock", unit="MHz", low=0.0), fields={"mhz": "cores, mean", "sm_mhz": "SM", "mem_mhz": "memory"}),
    Panel(id="temperature", title="Temperature", axis=Axis(name="temperature", unit="\u00b0C"), fields={"temp_c": "warmest sensor"}),
    Panel(id="power", title="Power", axis=Axis(name="power", unit="W", low=0.0), fields={"power_w": "board", "p": "meter"}),
    Panel(id="memory", title="Memory", axis=Axis(name="memory", unit="MiB", low=0.0), fields={"rss_mib": "this run", "free_mib": "free"}),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The readings of a run."""

    clocks_ns: tuple[int, int] | None
    """The same moment by the monotonic clock and by UTC."""
    channels: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]
    """Channel (host, gpu0) -> field -> pairs of monotonic ns and value."""


def read(path: Path) -> Telemetry | None:
    """Read the record; None if there is none, JudgedError if it is malformed."""
    if not path.is_file():
        return None
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    clocks: tuple[int, int] | None = None
    names: dict[int, str] = {}
    try:
        for line in lines(path):
            if clocks is None and "clocks_ns" in line:
                clocks, names = head(line)
            keep(found, line, names)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise JudgedError(f"{path.name} cannot be read") from error
    return Telemetry(clocks_ns=clocks, channels=found)


def lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the lines; the last may be incomplete if a process was killed."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with opened(path) as stream:
        for _ in range(LINES_LIMIT):
            line = stream.readline(LINE_LIMIT)
            if not line.endswith(b"\n"):
                return
            yield decode(line)


def head(line: Mapping[str, Any]) -> tuple[tuple[int, int], dict[int, str]]:
    """Parse the pair of clocks and the channel names in the first line."""
    monotonic, utc = line["clocks_ns"]
    return (int(monotonic), int(utc)), {int(each["id"]): str(each["name"]) for each in line.get("channels", ())}


def keep(found: dict[str, dict[str, list[tuple[int, float]]]], line: Mapping[str, Any], names: Mapping[int, str]) -> None:
    """Store the numbers of one line; lists of clocks are averaged, of temperatures the highest counts."""
    t = line.get("t")
    if not isinstance(t, int):
        return
    if "p" in line and finite(line["p"]):
        found.setdefault(names.get(line.get("i", -1), "meter"), {}).setdefault("p", []).append((t, line["p"] / UW_PER_W))
    for channel, fields in line.items():
        for name, value in fields.items() if isinstance(fields, dict) else ():
            number = reduced(name, value)
            if number is not None:
                found.setdefault(channel, {}).setdefault(name, []).append((t, number))


def reduced(name: str, value: object) -> float | None:
    """Reduce a field to one number; None if it has none."""
    if isinstance(value, list):
        numbers = [float(each) for each in value if finite(each)]
        return None if not numbers else max(numbers) if name == "temp_c" else fmean(numbers)
    return float(value) if finite(value) else None


def charts(told: Telemetry, begin_ns: int | None, where: str, *, minutes: bool = False) -> Iterator[Chart]:
    """Draw the readings; x is the time since `begin_ns` of the monotonic clock, or since the first reading if that is unknown."""
    every = [t for fields in told.channels.values() for points in fields.values() for t, _ in points]
    if not every:
        return
    first, unit = min(every) if begin_ns is None else begin_ns, NS_PER_MIN if minutes else NS_PER_S
    x = Axis(name="time since the run's start" if begin_ns is not None else "time since the first reading", unit="minutes" if minutes else "s")
    for panel in PANELS:
        drawn = tuple(panel_lines(told, panel, first, unit))
        if drawn:
            words = "; ".join(f"{line.name}: mean {fmean(y for _, y in line.points):.4g}, highest {max(y for _, y in line.points):.4g}" for line in drawn)
            text = f"{panel.title} of the machine during the run, in {panel.axis.unit}. {words}."
            yield Chart(id=f"{panel.id}-{where}", title=panel.title, description=text, x=x, y=panel.axis, lines=drawn)


def panel_lines(told: Telemetry, panel: Panel, first_ns: int, unit: float) -> Iterator[Line]:
    """Yield one line per channel and field of a panel."""
    several = len(told.channels) > 1
    for channel, fields in told.channels.items():
        for name, words in panel.fields.items():
            points = thinned([((t - first_ns) / unit, value * panel.times) for t, value in fields.get(name, ())])
            if points:
                yield Line(name=f"{channel}, {words}" if several else words, points=tuple(points))


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Average neighbouring points if there are more than a chart can show."""
    step = -(-len(points) // POINTS_MOST) if points else 1
    groups = (points[start : start + step] for start in range(0, len(points), step))
    return [(fmean(x for x, _ in group), fmean(y for _, y in group)) for group in groups]
