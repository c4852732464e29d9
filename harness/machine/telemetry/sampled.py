"""What can be sampled: a source has channels, and gives readings of them at a period of its own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

STATE_PERIOD_MS: Final = 1000
"""House rule: host and GPUs are read once a second."""


class Kind(StrEnum):
    """What a channel's readings are."""

    STATE = "state"
    """A JSON object under the channel's name."""
    ENERGY = "energy"
    """Microjoules, of a counter that only grows until it wraps: whole numbers."""
    POWER = "power"
    """Microwatts: whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One thing that is sampled."""

    name: str
    """Unique in a file: `host`, `gpu0`, `rapl:package-0`."""
    kind: Kind
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What does not change during a run and belongs into the first line, beside id, name and kind: model, source, grade, scope, range_uj (JSON types)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value of one channel."""

    t_ns: int
    """By the monotonic clock, in the middle of the reading."""
    channel: int
    """Place in the source's own `channels`."""
    value: Mapping[str, Any] | int
    """Of a state its fields, of energy uJ, of power uW."""


class Source(Protocol):
    """Something that the sampler reads; `open` functions give one, or None where this machine has nothing to read."""

    period_ms: int
    """Between two readings: STATE_PERIOD_MS, or of power sources the setting power.period_ms (100)."""

    @property
    def channels(self) -> Sequence[Channel]:
        """Name the channels, in an order that stays."""

    def read(self) -> Iterable[Reading]:
        """Read all channels that can be read now; an exception costs this reading, and is counted as missed."""

    def close(self) -> None:
        """Give back what was opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How the sampler's process opens one source; it travels as JSON."""

    function: str
    """`package.module:function`; called with the options by keyword."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a sampler's process is told."""

    path: str
    """Of the finished file."""
    sources: tuple[Opening, ...]
    goes_on: bool = False
    """Append a segment to what an interrupted run has left."""
