"""The power channels of a telemetry file, and the energy of a window by each of them: the harness and the judge read and reckon alike.

Times are turned into UTC by the pair of clocks at the head of each segment; a file is untrusted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from suite.energy import Energy, NoEnergyError, Series, energy
from suite.files.untrusted_files import UnreadableError, complaint, opened
from suite.power import PERIOD_MS, ROOT, SYSTEM, Grade, Quantity, overlap
from suite.records import EnergyRecord

KEYS: Final = {"e": Quantity.ENERGY, "p": Quantity.POWER}
LINE_LIMIT: Final = 1 << 20
"""Bytes of a line: a head with many channels has some thousand."""
MOST_READINGS: Final = 20_000_000
"""Of a file; ten channels at 100 ms for two days are 17 million."""
CLOCK_DRIFT_NS: Final = 50_000_000
"""By which the monotonic clock and UTC may part during a run. Source: house rule."""
NVML_LEAST_S: Final = 10.0
"""A shorter window has no energy by NVML: its sensors see a quarter of the time. Source: arXiv:2312.02741."""
COMPONENTS: Final = "components"
"""The source's name of a sum of parts, which is never called the system."""
PARTS: Final = (Grade.SENSOR, Grade.COUNTER)
"""What a sum of parts may be made of."""
METERS_OFFSET_NS: Final = 100_000_000
"""By which a meter's clock may differ, the doubt of the comparison included. Source: house rule; MLPerf Power allows 400 ms."""


@dataclass(slots=True, kw_only=True)
class Track:
    """One power channel with its readings, in ns of UTC."""

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
    def series(self) -> Series:
        """What the arithmetic takes."""
        range_uj, limit_w = self.facts.get("range_uj"), self.facts.get("limit_w")
        return Series(
            times_ns=self.times_ns,
            values=self.values,
            quantity=self.quantity,
            range_uj=range_uj if isinstance(range_uj, int) and range_uj > 0 else None,
            limit_w=float(limit_w) if isinstance(limit_w, int | float) and limit_w > 0 else None,
            period_ms=self.period_ms,
        )


@dataclass(slots=True, kw_only=True)
class Readings:
    """What a telemetry file has about power."""

    tracks: dict[str, Track] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    """Why something that was asked for was not read, one sentence each."""
    drift_ns: int = 0
    """By which the two clocks parted most."""
    rehearsal: str = ""
    """The root of the files that were read, where that is not the machine's own."""


def read(path: Path) -> Readings:
    """Read the power channels; UnreadableError if the file is not what the sampler writes. Other lines are passed over."""
    found, count = Readings(), 0
    segment = Segment()
    try:
        with opened(path) as stream:
            while line := stream.readline(LINE_LIMIT + 1):
                count += 1
                if len(line) > LINE_LIMIT or count > MOST_READINGS:
                    raise UnreadableError(path, "more than the sampler writes")
                if line.endswith(b"\n"):  # else torn by a kill
                    segment = take(found, segment, json.loads(line))
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error), missing=isinstance(error, FileNotFoundError)) from error
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise UnreadableError(path, f"line {count}: {complaint(error)}") from error
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What a head says: UTC minus the monotonic clock, and the power channels by their numbers."""

    offset_ns: int = 0
    tracks: Mapping[int, Track] = field(default_factory=dict)
    notes: frozenset[str] = frozenset()
    """Names of the channels that say why something is not read."""


def take(found: Readings, segment: Segment, line: Any) -> Segment:
    """Take one line; give the segment that the next one belongs to."""
    if "channels" in line:
        return head(found, line)
    if "end" in line:
        found.drift_ns = max(found.drift_ns, abs(offset(line["end"]["clocks_ns"]) - segment.offset_ns))
    elif "i" in line:
        track = segment.tracks.get(line["i"])
        for key, quantity in KEYS.items():
            if track is not None and key in line and quantity is track.quantity:
                track.times_ns.append(whole(line["t"]) + segment.offset_ns)
                track.values.append(whole(line[key]))
    else:
        found.absent += [str(line[name]["error"]) for name in segment.notes if name in line and "error" in line[name]]
    return segment


def head(found: Readings, line: Mapping[str, Any]) -> Segment:
    """Take a segment's first line: its channels and clocks."""
    tracks: dict[int, Track] = {}
    notes = set()
    for number, channel in enumerate(line["channels"]):
        if "grade" in channel:
            track = track_of(channel)
            known = found.tracks.setdefault(track.name, track)
            if (known.scopes, known.grade, known.quantity) != (track.scopes, track.grade, track.quantity):
                raise ValueError(f"channel '{track.name}' is of two kinds")
            tracks[number] = known
            root = str(channel.get("root", ROOT))
            found.rehearsal = found.rehearsal or ("" if root == str(ROOT) else root)
        elif "power" in channel:
            notes.add(str(channel["name"]))
            found.absent += [str(channel["absent"])] if channel.get("absent") else []
    return Segment(offset_ns=offset(line["clocks_ns"]), tracks=tracks, notes=frozenset(notes))


def track_of(channel: Mapping[str, Any]) -> Track:
    """Read a channel of a head."""
    listed = {key: tuple(str(each) for each in channel.get(key, ())) for key in ("scope", "within")}
    period_ms = channel.get("period_ms", PERIOD_MS)
    if type(period_ms) is not int or not 1 <= period_ms <= 3_600_000:
        raise ValueError(f"period_ms {period_ms!r}")
    return Track(
        name=str(channel["name"]),
        source=str(channel["source"]),
        grade=str(channel["grade"]),
        scopes=listed["scope"],
        containers=listed["within"],
        quantity=Quantity(channel["kind"]),
        period_ms=period_ms,
        facts={key: value for key, value in channel.items() if isinstance(value, int | float | str)},
    )


def offset(clocks: Sequence[Any]) -> int:
    """Return UTC minus the monotonic clock."""
    monotonic_ns, utc_ns = clocks
    return whole(utc_ns) - whole(monotonic_ns)


def whole(value: Any) -> int:
    """Take a whole number of at most 64 bits; ValueError for anything else."""
    if type(value) is not int or value.bit_length() > 63:
        raise ValueError(f"{str(value)[:40]!r} is no whole number of 64 bits")
    return value


def energies(found: Readings, begin_ns: int, end_ns: int) -> tuple[dict[str, Energy], list[str]]:
    """Compute the energy of a window, UTC ns, by every channel; and say for each channel that gives none why."""
    measured: dict[str, Energy] = {}
    reasons = list(dict.fromkeys(found.absent))
    if found.drift_ns > CLOCK_DRIFT_NS:
        return {}, [*reasons, f"the machine's clock was set by {found.drift_ns / 1e6:.0f} ms during the run"]
    for name, track in found.tracks.items():
        try:
            refuse(track, begin_ns, end_ns)
            measured[name] = energy(track.series, begin_ns, end_ns)
        except NoEnergyError as error:
            reasons.append(f"{name}: {error}")
    return measured, reasons


def refuse(track: Track, begin_ns: int, end_ns: int) -> None:
    """Raise NoEnergyError for what a source cannot tell: a window that NVML is too slow for, a meter whose clock is not the machine's."""
    if track.source == "nvml" and (end_ns - begin_ns) / 1e9 < NVML_LEAST_S:
        raise NoEnergyError(f"NVML's readings of less than {NVML_LEAST_S:g} s are not graded: some GPUs' sensors see a quarter of the time")
    apart, doubt = track.facts.get("clock_offset_ns", 0), track.facts.get("clock_doubt_ns", 0)
    if type(apart) is int and type(doubt) is int and abs(apart) + doubt > METERS_OFFSET_NS:
        limit = METERS_OFFSET_NS / 1e6
        raise NoEnergyError(f"the meter's clock is {apart / 1e6:+,.0f} ms off, within {doubt / 1e6:,.0f} ms; at most {limit:g} ms are allowed: set it by NTP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What was done in the window."""

    samples: int
    queries: int | None = None
    """Of a stream, whose energy is told per query too."""


def records(found: Readings, begin_ns: int, end_ns: int, work: Work) -> tuple[tuple[EnergyRecord, ...], tuple[str, ...]]:
    """Return the energy of a window as run.json has it, a sum of parts last; and why a channel gives none."""
    measured, reasons = energies(found, begin_ns, end_ns)
    each = tuple(record(found.tracks[name], value, work) for name, value in measured.items())
    return (*each, *components(each, work)), tuple(reasons)


def record(track: Track, measured: Energy, work: Work) -> EnergyRecord:
    """Make the record of one channel; samples/s/W are samples per joule."""
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
        samples_per_s_per_w=work.samples / measured.joules if measured.joules > 0 and work.samples else None,
        mj_per_query=measured.joules * 1000 / work.queries if work.queries else None,
    )


def components(each: Sequence[EnergyRecord], work: Work) -> Iterator[EnergyRecord]:
    """Yield the sum of the parts that nothing else contains, where there are several; its grade is the weakest of theirs."""
    parts = list(outermost([one for one in each if one.grade in PARTS and SYSTEM not in one.scope]))
    if len(parts) < 2:
        return
    weakest = max((Grade(part.grade) for part in parts), key=list(Grade).index)
    total = Energy(
        joules=sum(part.joules for part in parts),
        average_w=sum(part.average_w for part in parts),
        edge_j=sum(part.edge_j for part in parts),
        readings=min(part.readings for part in parts),
        longest_gap_ms=max(part.longest_gap_ms for part in parts),
        mlperf_mean_w=None,
    )
    scopes = tuple(sorted(scope for part in parts for scope in part.scope))
    track = Track(
        name=COMPONENTS, source=COMPONENTS, grade=weakest, scopes=scopes, containers=(), quantity=Quantity.ENERGY, period_ms=PERIOD_MS, facts={}
    )
    yield record(track, total, work)


def outermost(each: Sequence[EnergyRecord]) -> Iterator[EnergyRecord]:
    """Keep the parts that no other one contains; of several readings of one part the first."""
    kept: list[EnergyRecord] = []
    for one in sorted(each, key=lambda one: len({*one.within} & {scope for other in each for scope in other.scope})):
        if not any(overlap(one, other) for other in kept):
            kept.append(one)
            yield one
