"""Sources for the sampler: a meter of two channels, and some that misbehave."""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from harness.machine.telemetry.sampled import ChannelKind, SampledChannel, SampledReading


class Meter:
    """Ten joules more at each reading, and always 5 W."""

    def __init__(self, period_ms: int, fails_every: int) -> None:
        self.period_ms, self.fails_every = period_ms, fails_every
        self.calls = itertools.count(1)

    @property
    def channels(self) -> Sequence[SampledChannel]:
        """Two."""
        return [
            SampledChannel(
                name="fake:energy",
                kind=ChannelKind.ENERGY,
                facts={"grade": "counter", "scope": ["package0"], "range_uj": 10**9},
            ),
            SampledChannel(name="fake:power", kind=ChannelKind.POWER),
        ]

    def read(self) -> Iterator[SampledReading]:
        """Read both, or fail."""
        call = next(self.calls)
        if self.fails_every and call % self.fails_every == 0:
            raise OSError("no answer on purpose")
        yield SampledReading(t_ns=time.monotonic_ns(), channel=0, value=call * 10_000_000)
        yield SampledReading(t_ns=time.monotonic_ns(), channel=1, value=5_000_000)

    def close(self) -> None:
        """Nothing is held."""


class Odd:
    """A state with numbers that are none."""

    period_ms = 50
    channels = (SampledChannel(name="odd", kind=ChannelKind.STATE),)

    def read(self) -> Iterator[SampledReading]:
        """Give what JSON does not have."""
        state: dict[str, Any] = {"temp_c": float("nan"), "mhz": [float("inf"), 1.0]}
        yield SampledReading(t_ns=time.monotonic_ns(), channel=0, value=state)

    def close(self) -> None:
        """Nothing is held."""


def open_meter(period_ms: int = 100, fails_every: int = 0) -> Meter:
    """Open the meter."""
    return Meter(period_ms, fails_every)


def open_loud(characters: int) -> Meter:
    """Open the meter, and print on both streams, as a library or its helper does."""
    for stream in (1, 2):
        os.write(stream, b"noise\n" * (characters // 6))
    return open_meter()


def open_odd() -> Odd:
    """Open what tells nonsense."""
    return Odd()


def open_nothing() -> None:
    """Find nothing to read."""
