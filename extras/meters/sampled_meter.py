"""External meters as sources of the sampler: their power, and their errors."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from extras.meters.client import Meter, MeterError
from harness.machine.power.sampled import AbsentSource, build_channel_facts
from harness.machine.telemetry.sampled import ChannelKind, SampledReading
from harness.machine.telemetry.sampled import SampledChannel as Sampled
from suite.errors import MissingError, RequestError


class TextProtocolMeters:
    """Meters that speak podium's text protocol, over TCP or a program's standard streams."""

    opening: ClassVar[str] = f"{__name__}:open_meter"

    def greet_meter(self, address: str) -> int:
        """Greet a meter once, and return its period; RequestError if its address is unreachable,
        MissingError if its program fails at once.

        A meter that is reachable but faulty voids a run's energy, not the run.
        """
        try:
            meter = Meter(address)
        except MeterError as error:
            if error.failed:
                raise MissingError(f"--meter {address}: {error}") from error
            if str(error).startswith("cannot be reached"):
                raise RequestError(f"--meter {address}: {error}") from error
            return 0
        meter.close()
        return meter.period_ms


def open_meter(address: str) -> "MeterChannels | AbsentSource":
    """Open an external meter, and wait for its first sample; or return why it cannot be used."""
    try:
        return MeterChannels(Meter(address))
    except MeterError as error:
        return AbsentSource("meter", f"the meter {address}: {error}")


class MeterChannels:
    """An external meter: its power, and its errors."""

    def __init__(self, meter: Meter) -> None:
        self.meter, self.begun, self.told = meter, False, False
        self.period_ms = meter.period_ms

    @property
    def channels(self) -> Sequence[Sampled]:
        """Return the power channel, then the state channel."""
        return [
            Sampled(
                name="meter",
                kind=ChannelKind.POWER,
                facts=build_channel_facts(self.meter.channel, "/", self.period_ms),
            ),
            Sampled(name="power:meter", kind=ChannelKind.STATE, facts={"power": True}),
        ]

    def read(self) -> Iterator[SampledReading]:
        """Yield the samples that have arrived, waiting for one at first; after an error, yield the
        reason once, then raise OSError.
        """
        if self.told:
            raise OSError("the meter failed")
        try:
            if not self.begun:  # samples from before the file began are dropped
                self.begun = True
                self.meter.queue.clear()
                self.meter.wait_for_first_sample()
            for reading in self.meter.read_samples():
                yield SampledReading(t_ns=reading.t_ns, channel=0, value=reading.value)
        except MeterError as error:
            yield self.record_failure(error)

    def finish(self) -> Iterator[SampledReading]:
        """After the last samples, yield those that arrived until the meter stopped, or why none
        counts: its clock moved, or a sample was lost.
        """
        if self.told:
            return
        try:
            # a meter that was held up dates them behind the run's end, where its energy needs one
            for reading in self.meter.finish():
                yield SampledReading(t_ns=reading.t_ns, channel=0, value=reading.value)
        except MeterError as error:
            yield self.record_failure(error)

    def record_failure(self, error: MeterError) -> SampledReading:
        """Report why the run has no energy by this meter: no sample counts, also no later one."""
        self.told = True
        return SampledReading(
            t_ns=error.t_ns, channel=1, value={"error": f"the meter {self.meter.address}: {error}"}
        )

    def close(self) -> None:
        """Stop the meter."""
        self.meter.close()
