"""ACPI power meters, which measure the whole machine or named parts of it, from Linux's hwmon tree.

Source: kernel documentation, hwmon/acpi_power_meter.rst; `power1_average` in uW,
`power1_average_interval` in ms, `power1_is_battery`,
`power1_accuracy` in percent, `power1_oem_info`: free text of the manufacturer.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from harness.machine.power import sysfs
from suite.power import SYSTEM, Channel, Grade, PowerReading, Quantity

FOLDER: Final = "sys/class/hwmon"
DRIVER: Final = "power_meter"
SOCKET: Final = re.compile(r"(Module|Grace|CPU|SysIO) Power Socket (\d{1,3})", re.IGNORECASE)
"""Manufacturer's text on NVIDIA Grace. Source: NVIDIA Grace Performance Tuning Guide, Power and
Thermal Management.
"""
CONTAINERS: Final = {
    "module": (),
    "grace": ("module",),
    "cpu": ("grace", "module"),
    "sysio": ("grace", "module"),
}
"""What contains each: the module holds Grace and its GPU or second Grace; Grace holds its cores and
its I/O.
"""


class Hwmon:
    """The machine's own power meter."""

    name: ClassVar[str] = "hwmon"

    def __init__(self) -> None:
        self.paths: dict[str, Path] = {}

    def probe(self, root: Path) -> Sequence[Channel] | str:
        """Find readable meters; one that measures a battery does not count."""
        folder = root / FOLDER
        meters = [
            path for path in sorted(folder.glob("hwmon*")) if sysfs.text(path / "name") == DRIVER
        ]
        if not meters:
            return f"no ACPI power meter below {sysfs.shown(folder, root)}"
        if all(battery(meter) for meter in meters):
            return "the ACPI power meter measures a battery, not the machine"
        found = one_system(
            [channel for meter in meters if not battery(meter) for channel in self.channel(meter)]
        )
        return found or f"{sysfs.shown(meters[0] / 'power1_average', root)} cannot be read"

    def channel(self, meter: Path) -> Iterator[Channel]:
        """Yield a meter's channel, if it is readable."""
        place = meter / "power1_average"
        if (
            sysfs.number_or_none(place) is None
            and sysfs.number_or_none(meter / "device" / "power1_average") is not None
        ):
            meter = meter / "device"  # the location of the meter's files in older kernels
            place = meter / "power1_average"
        if sysfs.number_or_none(place) is None:
            return
        facts: dict[str, Any] = {
            "model": sysfs.text(meter / "power1_model_number"),
            "averaging_ms": sysfs.number_or_none(meter / "power1_average_interval"),
        }
        if accuracy := (sysfs.text(meter / "power1_accuracy") or "").rstrip("%").strip():
            facts["accuracy_percent"] = accuracy
        name = f"{self.name}:{meter.name if meter.name != 'device' else meter.parent.name}"
        self.paths[name] = place
        if part := sysfs.text(meter / "power1_oem_info"):
            facts["part"] = part
        known = {key: value for key, value in facts.items() if value is not None}
        scope, within = place_of(part or "")
        grade = Grade.METER if scope == SYSTEM else Grade.SENSOR
        yield Channel(
            name=name,
            source=self.name,
            grade=grade,
            scope=scope,
            within=within,
            quantity=Quantity.POWER,
            facts=known,
        )

    def read(self, channel: Channel) -> PowerReading:
        """Read a meter."""
        return sysfs.stamped(self.paths[channel.name])

    def close(self) -> None:
        """Do nothing: nothing is open."""


def place_of(part: str) -> tuple[str, tuple[str, ...]]:
    """Return the scope that a manufacturer's text names, and the scopes that contain it; the system
    without a text that is known.
    """
    match = SOCKET.fullmatch(part.strip())
    if match is None:
        return SYSTEM, ()
    kind, number = match[1].casefold(), match[2]
    return f"{kind}{number}", tuple(f"{each}{number}" for each in CONTAINERS[kind])


def one_system(channels: Sequence[Channel]) -> list[Channel]:
    """Keep the system for a meter that is alone; of several without a known text, none is known to
    measure the whole machine.
    """
    whole = [channel for channel in channels if channel.scope == SYSTEM]
    if len(whole) == len(channels) == 1:
        return list(channels)
    return [
        (
            replace(each, scope=f"meter:{each.name.partition(':')[2]}", grade=Grade.SENSOR)
            if each in whole
            else each
        )
        for each in channels
    ]


def battery(meter: Path) -> bool:
    """Check whether a meter measures a battery."""
    return any(
        sysfs.number_or_none(place / "power1_is_battery") == 1
        for place in (meter, meter / "device")
    )
