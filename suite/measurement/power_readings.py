"""The power channels of a telemetry file, and the energy of a window by each of them; harness and
judge share this code.

Times are converted to UTC by the pair of clocks in the head of each segment; the file is untrusted.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from suite.energy import ChannelReadings, NoEnergyError, WindowEnergy, compute_window_energy
from suite.files.untrusted_files import UnreadableError, describe_parse_failure, open_regular_file
from suite.power import PERIOD_MS, ROOT, SYSTEM, Grade, Quantity, is_overlapping
from suite.records import EnergyRecord
from suite.units import NS_PER_S

QUANTITY_BY_KEY: Final = {"e": Quantity.ENERGY, "p": Quantity.POWER}
MAX_TELEMETRY_LINE_BYTES: Final = 1 << 20
"""Limit in bytes of a line; a head with many channels has a few thousand."""
MAX_TELEMETRY_READINGS: Final = 20_000_000
"""Limit of readings in a file; ten channels at 100 ms for two days are 17 million."""
MAX_UTC_DRIFT_NS: Final = 50_000_000
"""Limit of the drift between the monotonic clock and UTC during a run. Source: house rule."""
NVML_MIN_WINDOW_S: Final = 10.0
"""NVML gives no energy for a shorter window: its sensors sample a quarter of the time. Source:
arXiv:2312.02741.
"""
COMPONENTS_SOURCE: Final = "components"
"""Source name for a sum of parts, which is never reported as the system."""
PART_GRADES: Final = (Grade.SENSOR, Grade.COUNTER)
"""Grades that a sum of parts may consist of."""
MAX_METER_OFFSET_NS: Final = 100_000_000
"""Limit of a meter's clock offset, including the uncertainty of the comparison. Source: house rule;
MLPerf Power allows 400 ms.
"""
IDLE_POWER_S: Final = 5.0
"""How long power is read before a command's first run, while nothing runs. Source: house rule."""
POWER_NOTE_PREFIX: Final = "power:"
"""Prefix of a channel that states why another has no readings."""


@dataclass(slots=True, kw_only=True)
class PowerTrack:
    """One power channel with its readings; times are ns of UTC."""

    name: str
    source: str
    grade: str
    scopes: tuple[str, ...]
    containers: tuple[str, ...]
    quantity: Quantity
    period_ms: int
    facts: Mapping[str, Any]
    times_ns: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    @property
    def channel_readings(self) -> ChannelReadings:
        """Return the input of the energy computation."""
        range_uj, limit_w = self.facts.get("range_uj"), self.facts.get("limit_w")
        return ChannelReadings(
            times_ns=self.times_ns,
            values=self.values,
            quantity=self.quantity,
            range_uj=range_uj if isinstance(range_uj, int) and range_uj > 0 else None,
            limit_w=float(limit_w) if isinstance(limit_w, int | float) and limit_w > 0 else None,
            period_ms=self.period_ms,
        )


@dataclass(slots=True, kw_only=True)
class TelemetryReadings:
    """Power readings of a telemetry file."""

    tracks: dict[str, PowerTrack] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    """Why a requested source was not read, one sentence each."""
    failed: set[str] = field(default_factory=set)
    """Channels whose instrument reported an error: their readings do not count."""
    ended: bool = False
    """Whether the last segment has its last line, by which the clocks are compared."""
    drift_ns: int = 0
    """Largest drift between the two clocks."""
    rehearsal: str = ""
    """Root folder of the files that were read, if it is not the machine's own."""


def read_power_readings(path: Path) -> TelemetryReadings:
    """Read the power channels; UnreadableError if the file is not in the sampler's format. Other
    lines are skipped.
    """
    found, count = TelemetryReadings(), 0
    segment = TelemetrySegment()
    try:
        with open_regular_file(path) as stream:
            while line := stream.readline(MAX_TELEMETRY_LINE_BYTES + 1):
                count += 1
                if len(line) > MAX_TELEMETRY_LINE_BYTES or count > MAX_TELEMETRY_READINGS:
                    raise UnreadableError(path, "more than the sampler writes")
                if line.endswith(b"\n"):  # else cut off by a kill
                    segment = process_telemetry_line(found, segment, json.loads(line))
    except OSError as error:
        raise UnreadableError(
            path, error.strerror or str(error), missing=isinstance(error, FileNotFoundError)
        ) from error
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise UnreadableError(path, f"line {count}: {describe_parse_failure(error)}") from error
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySegment:
    """A segment's head: UTC minus the monotonic clock, and the power channels by number."""

    offset_ns: int = 0
    tracks: Mapping[int, PowerTrack] = field(default_factory=dict)
    notes: frozenset[str] = frozenset()
    """Names of the channels that only state why something is not read."""


def process_telemetry_line(
    found: TelemetryReadings, segment: TelemetrySegment, line: Any
) -> TelemetrySegment:
    """Process one line; return the segment that the next line belongs to."""
    if "channels" in line:
        found.ended = False
        return process_segment_head(found, line)
    if "end" in line:
        found.ended = True
        found.drift_ns = max(
            found.drift_ns,
            abs(compute_clock_offset_ns(line["end"]["clocks_ns"]) - segment.offset_ns),
        )
    elif "i" in line:
        track = segment.tracks.get(line["i"])
        for key, quantity in QUANTITY_BY_KEY.items():
            if track is not None and key in line and quantity is track.quantity:
                track.times_ns.append(require_int64(line["t"]) + segment.offset_ns)
                track.values.append(require_int64(line[key]))
    else:
        errors = {
            name: str(line[name]["error"])
            for name in segment.notes
            if name in line and "error" in line[name]
        }
        found.absent += errors.values()
        found.failed |= {name.removeprefix(POWER_NOTE_PREFIX) for name in errors}
    return segment


def process_segment_head(found: TelemetryReadings, line: Mapping[str, Any]) -> TelemetrySegment:
    """Process a segment's first line: its channels and clocks."""
    tracks: dict[int, PowerTrack] = {}
    notes = set()
    for number, channel in enumerate(line["channels"]):
        if "grade" in channel:
            track = parse_power_track(channel)
            known = found.tracks.setdefault(track.name, track)
            if (known.scopes, known.grade, known.quantity) != (
                track.scopes,
                track.grade,
                track.quantity,
            ):
                raise ValueError(f"channel '{track.name}' is of two kinds")
            tracks[number] = known
            root = str(channel.get("root", ROOT))
            found.rehearsal = found.rehearsal or ("" if root == str(ROOT) else root)
        elif "power" in channel:
            notes.add(str(channel["name"]))
            found.absent += [str(channel["absent"])] if channel.get("absent") else []
    return TelemetrySegment(
        offset_ns=compute_clock_offset_ns(line["clocks_ns"]), tracks=tracks, notes=frozenset(notes)
    )


def parse_power_track(channel: Mapping[str, Any]) -> PowerTrack:
    """Parse a channel of a head."""
    listed = {key: tuple(str(each) for each in channel.get(key, ())) for key in ("scope", "within")}
    period_ms = channel.get("period_ms", PERIOD_MS)
    if type(period_ms) is not int or not 1 <= period_ms <= 3_600_000:
        raise ValueError(f"period_ms {period_ms!r}")
    return PowerTrack(
        name=str(channel["name"]),
        source=str(channel["source"]),
        grade=str(channel["grade"]),
        scopes=listed["scope"],
        containers=listed["within"],
        quantity=Quantity(channel["kind"]),
        period_ms=period_ms,
        facts={
            key: require_channel_fact(value)
            for key, value in channel.items()
            if isinstance(value, int | float | str)
        },
    )


def require_channel_fact(value: int | float | str) -> int | float | str:
    """Check a fact about a channel: ValueError for a number that no instrument reports."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no finite number")
    if type(value) is int:
        return require_int64(value)
    return value


def compute_clock_offset_ns(clocks: Sequence[Any]) -> int:
    """Return UTC minus the monotonic clock."""
    monotonic_ns, utc_ns = clocks
    return require_int64(utc_ns) - require_int64(monotonic_ns)


def require_int64(value: Any) -> int:
    """Check an integer of at most 64 bits; ValueError for anything else."""
    if type(value) is not int or value.bit_length() > 63:
        raise ValueError(f"{str(value)[:40]!r} is no whole number of 64 bits")
    return value


def compute_channel_energies(
    found: TelemetryReadings, begin_ns: int, end_ns: int
) -> tuple[dict[str, WindowEnergy], list[str]]:
    """Compute the energy of a window, UTC ns, for every channel, and give a reason for each channel
    without one.
    """
    measured: dict[str, WindowEnergy] = {}
    reasons = list(dict.fromkeys(found.absent))
    if found.tracks and not found.ended:
        return {}, [
            *reasons,
            (
                "the readings end without the line that compares the clocks: the sampler was"
                " killed, or the file was cut"
            ),
        ]
    if found.drift_ns > MAX_UTC_DRIFT_NS:
        return {}, [
            *reasons,
            f"the machine's clock was set by {found.drift_ns / 1e6:.0f} ms during the run",
        ]
    for name, track in found.tracks.items():
        if name in found.failed:
            continue
        try:
            check_window_measurable(track, begin_ns, end_ns)
            measured[name] = compute_window_energy(track.channel_readings, begin_ns, end_ns)
        except NoEnergyError as error:
            reasons.append(f"{name}: {error}")
    return measured, reasons


def check_window_measurable(track: PowerTrack, begin_ns: int, end_ns: int) -> None:
    """Raise NoEnergyError for a source that cannot measure this window: NVML for short ones, a
    meter whose clock is not the machine's.
    """
    if track.source == "nvml" and (end_ns - begin_ns) / 1e9 < NVML_MIN_WINDOW_S:
        raise NoEnergyError(
            f"NVML's readings of less than {NVML_MIN_WINDOW_S:g} s are not graded: some GPUs'"
            " sensors see a quarter of the time"
        )
    apart, doubt = track.facts.get("clock_offset_ns", 0), track.facts.get("clock_doubt_ns", 0)
    if type(apart) is int and type(doubt) is int and abs(apart) + doubt > MAX_METER_OFFSET_NS:
        limit = MAX_METER_OFFSET_NS / 1e6
        raise NoEnergyError(
            f"the meter's clock is {apart / 1e6:+,.0f} ms off, within {doubt / 1e6:,.0f} ms; at"
            f" most {limit:g} ms are allowed: set it by NTP"
        )


def find_covered_window(found: TelemetryReadings) -> tuple[int, int] | None:
    """Return the window that all channels with readings cover, ns of UTC; None if there is none."""
    edges = [
        (min(track.times_ns), max(track.times_ns))
        for track in found.tracks.values()
        if track.times_ns
    ]
    begin_ns, end_ns = (
        max((first for first, _ in edges), default=0),
        min((last for _, last in edges), default=0),
    )
    return (begin_ns, end_ns) if begin_ns < end_ns else None


def find_idle_window(found: TelemetryReadings) -> tuple[int, int] | None:
    """Return the window of the idle machine, ns of UTC: IDLE_POWER_S from where all channels have
    readings; None if they end before.
    """
    covered_window = find_covered_window(found)
    end_ns = 0
    if covered_window:
        end_ns = covered_window[0] + int(IDLE_POWER_S * NS_PER_S)
    if covered_window and end_ns <= covered_window[1]:
        return (covered_window[0], end_ns)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredWork:
    """Work done in the window."""

    samples: int
    queries: int | None = None
    """Queries of a SingleStream or MultiStream run, whose energy is also reported per query."""
    tokens: int | None = None
    """Tokens of generated answers, whose energy is also reported per token."""


def build_energy_records(
    found: TelemetryReadings, begin_ns: int, end_ns: int, work: MeasuredWork
) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
    """Return the energy records of a window, a sum of parts last, and why channels have none."""
    measured, reasons = compute_channel_energies(found, begin_ns, end_ns)
    channel_records = tuple(
        build_energy_record(found.tracks[name], value, work) for name, value in measured.items()
    )
    return (*channel_records, *sum_component_energies(channel_records, work)), tuple(reasons)


def build_energy_record(
    track: PowerTrack, measured: WindowEnergy, work: MeasuredWork
) -> EnergyRecord:
    """Return the record of one channel; samples/s/W are samples per joule."""
    return EnergyRecord(
        name=track.name,
        source=track.source,
        grade=track.grade,
        scope=track.scopes,
        within=track.containers,
        joules=measured.joules,
        average_w=measured.average_w,
        edge_j=measured.edge_j,
        readings=measured.readings,
        longest_gap_ms=measured.longest_gap_ms,
        mlperf_mean_w=measured.mlperf_mean_w,
        per_sample_j=measured.joules / work.samples if work.samples else None,
        samples_per_s_per_w=(
            work.samples / measured.joules if measured.joules > 0 and work.samples else None
        ),
        mj_per_query=measured.joules * 1000 / work.queries if work.queries else None,
        per_token_j=measured.joules / work.tokens if work.tokens else None,
        call=str(track.facts.get("call", "")),
    )


def sum_component_energies(
    channel_records: Sequence[EnergyRecord], work: MeasuredWork
) -> Iterator[EnergyRecord]:
    """Yield the sum of the parts that no other part contains, if there are several; its grade is
    the weakest among them.
    """
    parts = list(
        select_outermost_parts(
            [one for one in channel_records if one.grade in PART_GRADES and SYSTEM not in one.scope]
        )
    )
    if len(parts) < 2:
        return
    weakest = max((Grade(part.grade) for part in parts), key=list(Grade).index)
    total = WindowEnergy(
        joules=sum(part.joules for part in parts),
        average_w=sum(part.average_w for part in parts),
        edge_j=sum(part.edge_j for part in parts),
        readings=min(part.readings for part in parts),
        longest_gap_ms=max(part.longest_gap_ms for part in parts),
        mlperf_mean_w=None,
    )
    scopes = tuple(sorted(scope for part in parts for scope in part.scope))
    track = PowerTrack(
        name=COMPONENTS_SOURCE,
        source=COMPONENTS_SOURCE,
        grade=weakest,
        scopes=scopes,
        containers=(),
        quantity=Quantity.ENERGY,
        period_ms=PERIOD_MS,
        facts={},
    )
    yield build_energy_record(track, total, work)


def select_outermost_parts(each: Sequence[EnergyRecord]) -> Iterator[EnergyRecord]:
    """Keep the parts that no other part contains; of several readings of one part keep the
    first.
    """
    selected: list[EnergyRecord] = []
    for one in sorted(
        each,
        key=lambda one: len({*one.within} & {scope for other in each for scope in other.scope}),
    ):
        if not any(is_overlapping(one, other) for other in selected):
            selected.append(one)
            yield one
