"""ACPI power meters, which measure the whole machine or named parts of it, from Linux's hwmon tree.

Source: kernel documentation, hwmon/acpi_power_meter.rst; `power1_average` in uW,
`power1_average_interval` in ms, `power1_is_battery`,
`power1_accuracy` in percent, `power1_oem_info`: free text of the manufacturer.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from harness.machine.power import sysfs
from suite.errors import MissingError
from suite.power import ROOT, SYSTEM, Channel, Grade, PowerReading, Quantity
from suite.units import UW_PER_W

HWMON_FOLDER: Final = "sys/class/hwmon"
ACPI_METER_DRIVER: Final = "power_meter"
SOCKET_TEXT: Final = re.compile(r"(Module|Grace|CPU|SysIO) Power Socket (\d{1,3})", re.IGNORECASE)
"""Manufacturer's text on NVIDIA Grace. Source: NVIDIA Grace Performance Tuning Guide, Power and
Thermal Management.
"""
SOCKET_CONTAINERS: Final = {
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
        folder = root / HWMON_FOLDER
        meters = [
            path
            for path in sorted(folder.glob("hwmon*"))
            if sysfs.read_sysfs_text(path / "name") == ACPI_METER_DRIVER
        ]
        if not meters:
            return f"no ACPI power meter below {sysfs.format_kernel_path(folder, root)}"
        if all(is_battery_meter(meter) for meter in meters):
            return "the ACPI power meter measures a battery, not the machine"
        found = resolve_system_scope(
            [
                channel
                for meter in meters
                if not is_battery_meter(meter)
                for channel in self.find_channel(meter)
            ]
        )
        return (
            found
            or f"{sysfs.format_kernel_path(meters[0] / 'power1_average', root)} cannot be read"
        )

    def find_channel(self, meter: Path) -> Iterator[Channel]:
        """Yield a meter's channel, if it is readable."""
        power_file = meter / "power1_average"
        if (
            sysfs.find_sysfs_number(power_file) is None
            and sysfs.find_sysfs_number(meter / "device" / "power1_average") is not None
        ):
            meter = meter / "device"  # the location of the meter's files in older kernels
            power_file = meter / "power1_average"
        if sysfs.find_sysfs_number(power_file) is None:
            return
        facts: dict[str, Any] = {
            "model": sysfs.read_sysfs_text(meter / "power1_model_number"),
            "averaging_ms": sysfs.find_sysfs_number(meter / "power1_average_interval"),
        }
        if accuracy := (sysfs.read_sysfs_text(meter / "power1_accuracy") or "").rstrip("%").strip():
            facts["accuracy_percent"] = accuracy
        name = f"{self.name}:{meter.name if meter.name != 'device' else meter.parent.name}"
        self.paths[name] = power_file
        if part := sysfs.read_sysfs_text(meter / "power1_oem_info"):
            facts["part"] = part
        known = {key: value for key, value in facts.items() if value is not None}
        scope, within = parse_socket_scope(part or "")
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
        return sysfs.read_stamped_value(self.paths[channel.name])

    def close(self) -> None:
        """Do nothing: nothing is open."""


def parse_socket_scope(part: str) -> tuple[str, tuple[str, ...]]:
    """Return the scope that a manufacturer's text names, and the scopes that contain it; the system
    without a text that is known.
    """
    match = SOCKET_TEXT.fullmatch(part.strip())
    if match is None:
        return SYSTEM, ()
    kind, number = match[1].casefold(), match[2]
    return f"{kind}{number}", tuple(f"{each}{number}" for each in SOCKET_CONTAINERS[kind])


def resolve_system_scope(channels: Sequence[Channel]) -> list[Channel]:
    """Keep the system for a meter that is alone; of several without a known text, none is known to
    measure the whole machine.
    """
    whole = [channel for channel in channels if channel.scope == SYSTEM]
    if len(whole) == len(channels) == 1:
        return list(channels)
    resolved = list(channels)
    for place, each in enumerate(channels):
        if each in whole:
            meter = f"meter:{each.name.partition(':')[2]}"
            resolved[place] = replace(each, scope=meter, grade=Grade.SENSOR)
    return resolved


def is_battery_meter(meter: Path) -> bool:
    """Check whether a meter measures a battery."""
    return any(
        sysfs.find_sysfs_number(place / "power1_is_battery") == 1
        for place in (meter, meter / "device")
    )


def open_hwmon_meter() -> tuple[str, Callable[[], float]]:
    """Return the traits of this machine's meter and its read function, for a client; MissingError
    if there is none.
    """
    source = Hwmon()
    found = source.probe(ROOT)
    if isinstance(found, str):
        raise MissingError(f"hwmon: {found}")
    channel = found[0]
    model = str(channel.facts.get("model") or "acpi").replace(" ", "-")
    return f"name={model} scope={channel.scope}", lambda: source.read(channel).value / UW_PER_W
