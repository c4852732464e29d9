"""The power-source contract: what can be read on this machine, how direct each reading is, and
which parts of the machine it covers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

SYSTEM: Final = "system"
"""Scope of the whole machine, measured at its plug; it contains every other part."""
GPU_SCOPE_PATTERN: Final = re.compile(r"gpu(\d+)")
"""Scope of a GPU in NVML; on a superchip it is part of the module with its number. Source: nvml.h,
NVML_POWER_SCOPE_MODULE.
"""
PERIOD_MS: Final = 100
"""Default interval between two readings; the setting power.period_ms changes it. Source: house
rule; MLPerf Training requires at least 1 Hz.
"""
ROOT: Final = Path("/")
"""Root folder of the kernel's files; any other is a rehearsal on made-up files and never compliant.
"""


class Grade(StrEnum):
    """How direct a reading is, the best first. No grade is an estimate: a power that was not
    measured is not reported.
    """

    ANALYZER = "analyzer"
    """The whole system at the wall, by an analyzer that MLPerf Power accepts."""
    METER = "meter"
    """The whole system, by any other meter."""
    SENSOR = "sensor"
    """One component, by a shunt of its own."""
    COUNTER = "counter"
    """Energy counter kept by a chip, possibly modelled."""


class Quantity(StrEnum):
    """Quantity that a channel's readings measure."""

    ENERGY = "energy"
    """Microjoules of a counter that increases until it wraps."""
    POWER = "power"
    """Microwatts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One readable channel."""

    name: str
    """Unique on this machine: `rapl:package-0`."""
    source: str
    grade: Grade
    scope: str
    """The part of the machine that it covers: `system`, `package0`, `gpu0`, `rail:VDD_IN`."""
    within: tuple[str, ...] = ()
    """Scopes that contain this one; `system` contains all."""
    quantity: Quantity
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the readings, as JSON types: range_uj, limit_w, period_ms, call, averaging_ms,
    uncertainty, calibrated, model.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerReading:
    """One reading."""

    t_ns: int
    """Monotonic clock, in the middle of the reading."""
    value: int
    """Microjoules or microwatts."""


class PowerSource(Protocol):
    """A source of power or energy readings; constructed without arguments, an entry point of
    `podium.power`.
    """

    name: ClassVar[str]

    def probe(self, root: Path) -> Sequence[Channel] | str:
        """Return the channels available here, each after one real reading, or one sentence why
        there are none.
        """
        ...

    def read(self, channel: Channel) -> PowerReading:
        """Read a channel now; OSError if it can no longer be read. Never a guess."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class ExternalMeters(Protocol):
    """How meters beside this machine are read (`--meter ADDRESS`); constructed without arguments,
    an entry point of `podium.meters`.
    """

    opening: ClassVar[str]
    """`module:function` that the sampler calls with the option `address`."""

    def greet_meter(self, address: str) -> int:
        """Greet a meter once before anything is timed, and return its period in ms, 0 if it is
        faulty; RequestError if it is unreachable, MissingError if its program fails at once.
        """
        ...


class Part(Protocol):
    """Anything that covers parts of the machine: a channel, or an energy measured by one."""

    @property
    def scopes(self) -> Iterable[str]:
        """The parts that it covers."""
        ...

    @property
    def containers(self) -> Iterable[str]:
        """The parts that contain these."""
        ...


def is_overlapping(one: Part, other: Part) -> bool:
    """Return whether two parts overlap, so that adding them would count something twice."""
    mine, others = {*one.scopes}, {*other.scopes}
    if SYSTEM in mine | others:
        return True
    return bool(mine & others or mine & {*other.containers} or others & {*one.containers})
