"""ACPI power meters, which measure the whole machine, from Linux's hwmon tree.

Source: kernel documentation, hwmon/acpi_power_meter.rst; `power1_average` in uW, `power1_average_interval` in ms, `power1_is_battery`,
`power1_accuracy` in percent.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from harness.machine.power import sysfs
from suite.power import SYSTEM, Channel, Grade, PowerReading, Quantity

FOLDER: Final = "sys/class/hwmon"
DRIVER: Final = "power_meter"


class Hwmon:
    """The machine's own power meter."""

    name: ClassVar[str] = "hwmon"

    def __init__(self) -> None:
        self.paths: dict[str, Path] = {}

    def probe(self, root: Path) -> Sequence[Channel] | str:
        """Find readable meters; one that measures a battery does not count."""
        folder = root / FOLDER
        meters = [path for path in sorted(folder.glob("hwmon*")) if sysfs.text(path / "name") == DRIVER]
        if not meters:
            return f"no ACPI power meter below {sysfs.shown(folder, root)}"
        if all(battery(meter) for meter in meters):
            return "the ACPI power meter measures a battery, not the machine"
        found = [channel for meter in meters if not battery(meter) for channel in self.channel(meter)]
        return found or f"{sysfs.shown(meters[0] / 'power1_average', root)} cannot be read"

    def channel(self, meter: Path) -> Iterator[Channel]:
        """Yield a meter's channel, if it is readable."""
        place = meter / "power1_average"
        if sysfs.number_or_none(place) is None and sysfs.number_or_none(meter / "device" / "power1_average") is not None:
            meter = meter / "device"  # the location of the meter's files in older kernels
            place = meter / "power1_average"
        if sysfs.number_or_none(place) is None:
            return
        facts: dict[str, Any] = {"model": sysfs.text(meter / "power1_model_number"), "averaging_ms": sysfs.number_or_none(meter / "power1_average_interval")}
        if accuracy := (sysfs.text(meter / "power1_accuracy") or "").rstrip("%").strip():
            facts["accuracy_percent"] = accuracy
        name = f"{self.name}:{meter.name if meter.name != 'device' else meter.parent.name}"
        self.paths[name] = place
        known = {key: value for key, value in facts.items() if value is not None}
        yield Channel(name=name, source=self.name, grade=Grade.METER, scope=SYSTEM, quantity=Quantity.POWER, facts=known)

    def read(self, channel: Channel) -> PowerReading:
        """Read a meter."""
        return sysfs.stamped(self.paths[channel.name])

    def close(self) -> None:
        """Do nothing: nothing is open."""


def battery(meter: Path) -> bool:
    """Check whether a meter measures a battery."""
    return any(sysfs.number_or_none(place / "power1_is_battery") == 1 for place in (meter, meter / "device"))
