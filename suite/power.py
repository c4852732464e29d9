"""Contract of a power source: what can be read on this machine, how direct each reading is, and which parts of the machine it is about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

SYSTEM: Final = "system"
"""The scope of the whole machine, at its plug: every other part is in it."""
PERIOD_MS: Final = 100
"""Between two readings, unless the setting power.period_ms says otherwise. Source: house rule; MLPerf Training asks for 1 Hz at least."""
ROOT: Final = Path("/")
"""Below which the kernel's files lie; anything else is a rehearsal on made-up files, and never compliant."""


class Grade(StrEnum):
    """How direct a reading is, from the best. No grade stands for an estimate: a watt that nobody measured is not told."""

    ANALYZER = "analyzer"
    """The whole system at the wall, by an analyzer that MLPerf Power accepts."""
    METER = "meter"
    """The whole system, by any other meter."""
    SENSOR = "sensor"
    """One component, by a shunt of its own."""
    COUNTER = "counter"
    """Energy that a chip keeps, possibly modelled."""


class Quantity(StrEnum):
    """What a channel's readings are."""

    ENERGY = "energy"
    """Microjoules of a counter that only grows, until it wraps."""
    POWER = "power"
    """Microwatts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One thing that can be read."""

    name: str
    """Unique on this machine: `rapl:package-0`."""
    source: str
    grade: Grade
    scope: str
    """The part of the machine that it is about: `system`, `package0`, `gpu0`, `rail:VDD_IN`."""
    within: tuple[str, ...] = ()
    """Scopes that contain this one; `system` contains all."""
    quantity: Quantity
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What belongs to the readings, as JSON types: range_uj, limit_w, period_ms, call, averaging_ms, uncertainty, calibrated, model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerReading:
    """One value."""

    t_ns: int
    """By the monotonic clock, in the middle of the reading."""
    value: int
    """Microjoules or microwatts."""


class PowerSource(Protocol):
    """Something that can be asked for power or energy; made without arguments, an entry point of `podium.power`."""

    name: ClassVar[str]

    def probe(self, root: Path) -> Sequence[Channel] | str:
        """Return what can be read here, each channel after one real reading, or one sentence why there is nothing."""
        ...

    def read(self, channel: Channel) -> PowerReading:
        """Read a channel now; OSError if it cannot be read any more. Never a guess."""
        ...

    def close(self) -> None:
        """Return back what was opened."""
        ...


class Part(Protocol):
    """What overlaps: a channel, or what was measured by one."""

    @property
    def scopes(self) -> Iterable[str]:
        """The parts that it is about."""
        ...

    @property
    def containers(self) -> Iterable[str]:
        """The parts that these are in."""
        ...


def overlap(one: Part, other: Part) -> bool:
    """Return whether two parts share something, so that adding them would count it twice."""
    mine, others = {*one.scopes}, {*other.scopes}
    if SYSTEM in mine | others:
        return True
    return bool(mine & others or mine & {*other.containers} or others & {*one.containers})
