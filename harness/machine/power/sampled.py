"""Power sources as sampler sources; one that was requested and is missing leaves a channel with the
reason.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.machine.telemetry.sampled import ChannelKind, SampledReading
from harness.machine.telemetry.sampled import SampledChannel as Sampled
from suite import registry
from suite.errors import PodiumError
from suite.power import Channel, PowerSource

ABSENT_PERIOD_MS = 1000


def open_source(
    name: str, root: str, period_ms: int, asked: bool
) -> "SourceChannels | AbsentSource | None":
    """Open a source by name; if it has nothing to read, return None, or the reason if the user
    requested it.
    """
    try:
        source = registry.load_power_source(name)
        found = source.probe(Path(root))
    except PodiumError as error:
        return AbsentSource(name, str(error)) if asked else None
    if isinstance(found, str):
        source.close()
        if asked:
            return AbsentSource(name, f"{name}: {found}")
        return None
    return SourceChannels(source, found, root, period_ms)


class AbsentSource:
    """Nothing to read, and why."""

    period_ms = ABSENT_PERIOD_MS

    def __init__(self, name: str, reason: str) -> None:
        self.channels: Sequence[Sampled] = [
            Sampled(
                name=f"power:{name}",
                kind=ChannelKind.STATE,
                facts={"power": True, "absent": reason},
            )
        ]

    def read(self) -> Iterator[SampledReading]:
        """Yield nothing."""
        yield from ()

    def close(self) -> None:
        """Do nothing: nothing is open."""


class SourceChannels:
    """A source's channels."""

    def __init__(
        self, source: PowerSource, found: Sequence[Channel], root: str, period_ms: int
    ) -> None:
        self.source, self.found, self.root, self.period_ms = source, found, root, period_ms
        self.last_ns = [-1] * len(found)

    @property
    def channels(self) -> Sequence[Sampled]:
        """Return the channels, with all facts of their readings."""
        return [
            Sampled(
                name=each.name,
                kind=ChannelKind(each.quantity.value),
                facts=build_channel_facts(each, self.root, self.period_ms),
            )
            for each in self.found
        ]

    def read(self) -> Iterator[SampledReading]:
        """Read all readable channels; OSError if there are none."""
        failed: list[OSError] = []
        for number, channel in enumerate(self.found):
            try:
                reading = self.source.read(channel)
            except OSError as error:
                failed.append(error)
                continue
            # a program that prints its own lines may have no new one
            if reading.t_ns > self.last_ns[number]:
                self.last_ns[number] = reading.t_ns
                yield SampledReading(t_ns=reading.t_ns, channel=number, value=reading.value)
        if len(failed) == len(self.found):
            raise failed[0]

    def close(self) -> None:
        """Close the source."""
        self.source.close()


def build_channel_facts(channel: Channel, root: str, period_ms: int) -> dict[str, Any]:
    """Return a channel's facts in the first line, besides its name and kind."""
    own = {
        "source": channel.source,
        "grade": channel.grade.value,
        "scope": [channel.scope],
        "within": list(channel.within),
    }
    return {**own, "root": root, "period_ms": period_ms, **channel.facts}
