"""Define the valid power channels: grades, quantities and scopes of each source, and which parts
contain others.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from suite.measurement.power_readings import PowerTrack
from suite.power import GPU_SCOPE_PATTERN, SYSTEM, Grade, Quantity

POWER_ONLY: Final = (Quantity.POWER,)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSource:
    """The valid channels of a source."""

    grades: Mapping[str, tuple[str, ...]]
    """Grade -> the quantities in which it is read."""
    prefix: str = ""
    """Pattern of its channels' names."""


POWER_SOURCES: Final[Mapping[str, KnownSource]] = {
    "nvml": KnownSource(
        grades={Grade.SENSOR: POWER_ONLY, Grade.COUNTER: (Quantity.ENERGY,)}, prefix="nvml:"
    ),
    "rapl": KnownSource(grades={Grade.COUNTER: (Quantity.ENERGY,)}, prefix="rapl:"),
    "hwmon": KnownSource(
        grades={Grade.METER: POWER_ONLY, Grade.SENSOR: POWER_ONLY}, prefix="hwmon:"
    ),
    "ina3221": KnownSource(grades={Grade.SENSOR: POWER_ONLY}, prefix="ina3221:"),
    "tegrastats": KnownSource(grades={Grade.SENSOR: POWER_ONLY}, prefix="tegrastats:"),
    "meter": KnownSource(grades={Grade.METER: POWER_ONLY}, prefix="meter"),
}
"""podium's own sources."""
PLUGIN_SOURCE: Final = KnownSource(
    grades={Grade.METER: POWER_ONLY, Grade.SENSOR: tuple(Quantity), Grade.COUNTER: tuple(Quantity)}
)
"""Sources of plugins: only an imported session contains an analyzer's watts."""
RAPL_CORE_ZONE_PATTERN: Final = re.compile(r"(?:core|uncore)(\d.*)")
RAPL_PACKAGE_ZONE_PATTERN: Final = re.compile(r"(?:package|dram)\d.*")
"""Zones of RAPL. Source: Linux, power/powercap/powercap.rst; harness/machine/power/rapl.py."""
EVEN_READINGS_SHARE: Final = 1e-4
"""Minimum share of its highest reading by which a sensor varies with the load. Source: house rule;
meters print four or five digits.
"""
EQUAL_MEANS_SHARE: Final = 1e-3
"""Minimum share by which the mean of a run differs from that of the time around it. Source: house
rule.
"""


def find_channel_misfits(track: PowerTrack) -> Iterator[tuple[str, str]]:
    """Yield channel properties that its source cannot have, and the valid ones."""
    known = POWER_SOURCES.get(track.source, PLUGIN_SOURCE)
    if track.grade not in known.grades:
        yield f"{track.name}: grade {track.grade}", " or ".join(known.grades)
    elif track.quantity not in known.grades[track.grade]:
        yield (
            f"{track.name}: grade {track.grade} read as {track.quantity}",
            " or ".join(known.grades[track.grade]),
        )
    if not track.name.startswith(known.prefix):
        yield f"{track.name}: source {track.source}", "channels of its source"
    if SYSTEM in track.scopes and track.grade not in (Grade.METER, Grade.ANALYZER):
        yield (
            f"{track.name}: grade {track.grade} for the system",
            "a meter of the whole system, or one part",
        )


def find_containing_scopes(track: PowerTrack, read: Collection[str]) -> frozenset[str]:
    """Return the scopes that are known to contain a channel's parts: those of RAPL, and the module
    of a GPU among the other readings.
    """
    found: set[str] = set()
    if track.source == "nvml":
        for scope in track.scopes:
            if (match := GPU_SCOPE_PATTERN.fullmatch(scope)) and (
                module := f"module{match[1]}"
            ) in read:
                found.add(module)
    if track.source == "rapl":
        for scope in track.scopes:
            if match := RAPL_CORE_ZONE_PATTERN.fullmatch(scope):
                found |= {f"package{match[1]}", "psys"}
            elif RAPL_PACKAGE_ZONE_PATTERN.fullmatch(scope):
                found.add("psys")
    return frozenset(found)


def describe_unmoved_channel(track: PowerTrack, window: tuple[int, int], fewest: int) -> str:
    """Describe a channel that does not change with the load: constant during the run, or equal in
    it and around it; empty if it changes.
    """
    begin_ns, end_ns = window
    pairs = list(zip(track.times_ns, track.values, strict=True))
    inside = [value for t, value in pairs if begin_ns < t < end_ns]
    if len(inside) < fewest:
        return ""
    if track.quantity is Quantity.ENERGY:
        return (
            f"{track.name}: {len(inside)} readings of {inside[0]} uJ" if len({*inside}) == 1 else ""
        )
    if max(inside) - min(inside) <= EVEN_READINGS_SHARE * max(inside):
        return f"{track.name}: {len(inside)} readings of {format_power_range(inside)}"
    around = [value for t, value in pairs if not begin_ns < t < end_ns]
    if len(around) >= fewest and abs(fmean(around) - fmean(inside)) <= EQUAL_MEANS_SHARE * fmean(
        inside
    ):
        return (
            f"{track.name}: {fmean(inside) / 1e6:g} W in the run, and {fmean(around) / 1e6:g} W"
            " before and after it"
        )
    return ""


def format_power_range(values: Iterable[int]) -> str:
    """Format the range of some powers."""
    low, high = min(values := list(values)) / 1e6, max(values) / 1e6
    return f"{high:g} W" if low == high else f"{low:g} to {high:g} W"
