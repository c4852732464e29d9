"""Interfaces of what can be sampled: a source has channels, and returns their readings at its own
period.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable

STATE_PERIOD_MS: Final = 1000
"""House rule: host and GPUs are read once a second."""


class ChannelKind(StrEnum):
    """The kind of a channel's readings."""

    STATE = "state"
    """A JSON object under the channel's name."""
    ENERGY = "energy"
    """Microjoules of a counter that only grows until it wraps: integers."""
    POWER = "power"
    """Microwatts: integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledChannel:
    """One sampled quantity."""

    name: str
    """Unique in a file: `host`, `gpu0`, `rapl:package-0`."""
    kind: ChannelKind
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Constants for the first line, after id, name and kind: model, source, grade, scope, range_uj
    (JSON types).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledReading:
    """One value of one channel."""

    t_ns: int
    """Monotonic clock, at the middle of the reading."""
    channel: int
    """Index into the source's own `channels`."""
    value: Mapping[str, Any] | int
    """The fields of a state, uJ of energy, uW of power."""


class SampledSource(Protocol):
    """Something that the sampler reads; its `open` function returns None if this machine has
    nothing to read.
    """

    period_ms: int
    """Time between two readings: STATE_PERIOD_MS, or for power sources the setting power.period_ms
    (100).
    """

    @property
    def channels(self) -> Sequence[SampledChannel]:
        """Return the channels, in a fixed order."""

    def read(self) -> Iterable[SampledReading]:
        """Read all channels that can be read now; on an exception this reading counts as missed."""

    def close(self) -> None:
        """Close what was opened."""


@runtime_checkable
class FinishingSource(Protocol):
    """A source that has something to tell after its last readings."""

    def finish(self) -> Iterable[SampledReading]:
        """Yield it; on an exception there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOpening:
    """How the sampler's process opens one source; sent as JSON."""

    function: str
    """`package.module:function`; called with the options by keyword."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """All input of a sampler's process."""

    path: str
    """Path of the finished file."""
    sources: tuple[SourceOpening, ...]
    goes_on: bool = False
    """Append a segment to an interrupted run's file."""
