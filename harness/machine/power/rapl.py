"""RAPL: energy counters of Intel's and AMD's processors, from Linux's powercap tree.

Source: kernel documentation, power/powercap/powercap.rst; files `name`, `energy_uj`,
`max_energy_range_uj`,
`constraint_X_max_power_uw`, `constraint_X_power_limit_uw`.
Since the fix of CVE-2020-8694 (PLATYPUS) the counters are readable by root alone.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from harness.machine.power import sysfs
from suite.power import Channel, Grade, PowerReading, Quantity
from suite.units import UW_PER_W

POWERCAP_FOLDER: Final = "sys/class/powercap"
ZONE_NAME: Final = re.compile(r"intel-rapl:(\d+)(?::(\d+))?")
"""Control type intel-rapl, also on AMD; intel-rapl-mmio repeats the same counters."""
CONSTRAINT_FILE: Final = re.compile(r"constraint_\d+_(?:max_power|power_limit)_uw")
PACKAGE_ZONE: Final = re.compile(r"package-(\d+)(?:-die-(\d+))?")


class Rapl:
    """The processors' counters."""

    name: ClassVar[str] = "rapl"

    def __init__(self) -> None:
        self.paths: dict[str, Path] = {}

    def probe(self, root: Path) -> Sequence[Channel] | str:
        """Find the zones with a readable counter."""
        folder = root / POWERCAP_FOLDER
        if folder.is_dir():
            zones = sorted(
                path for path in folder.glob("intel-rapl:*") if ZONE_NAME.fullmatch(path.name)
            )
        else:
            zones = []
        if not zones:
            return (
                f"no counters below {sysfs.format_kernel_path(folder, root)}: the processor has"
                " none, or a virtual machine or container hides them"
            )
        found = [channel for zone in zones for channel in self.find_channel(zone)]
        if found:
            return found
        files = sysfs.format_kernel_path(folder / "intel-rapl:*" / "energy_uj", root)
        return (
            f"{sysfs.format_kernel_path(zones[0] / 'energy_uj', root)} cannot be read; sudo chmod"
            f" a+r {files} opens it until the next start"
        )

    def find_channel(self, zone: Path) -> Iterator[Channel]:
        """Yield a zone's channel, if its counter is readable."""
        counter = zone / "energy_uj"
        if sysfs.find_sysfs_number(counter) is None:
            return
        scope, within = resolve_zone_scope(zone)
        facts: dict[str, Any] = {"domain": sysfs.read_sysfs_text(zone / "name") or zone.name}
        if (most := sysfs.find_sysfs_number(zone / "max_energy_range_uj")) is not None:
            facts["range_uj"] = most
        if limits := [
            each
            for file in zone.glob("constraint_*_*_uw")
            if CONSTRAINT_FILE.fullmatch(file.name) and (each := sysfs.find_sysfs_number(file))
        ]:
            # the short-term limit is above the long-term one
            facts["limit_w"] = max(limits) / UW_PER_W
        name = f"{self.name}:{scope}"
        self.paths[name] = counter
        yield Channel(
            name=name,
            source=self.name,
            grade=Grade.COUNTER,
            scope=scope,
            within=within,
            quantity=Quantity.ENERGY,
            facts=facts,
        )

    def read(self, channel: Channel) -> PowerReading:
        """Read a counter."""
        return sysfs.read_stamped_value(self.paths[channel.name])

    def close(self) -> None:
        """Do nothing: nothing is open."""


def resolve_zone_scope(zone: Path) -> tuple[str, tuple[str, ...]]:
    """Return a zone's scope and the scopes that contain it: psys contains packages, a package its
    cores; memory is not part of its package.
    """
    match = ZONE_NAME.fullmatch(zone.name)
    assert match is not None
    name = sysfs.read_sysfs_text(zone / "name") or zone.name
    if match[2] is None:
        return convert_zone_name(name), () if name == "psys" else ("psys",)
    package = convert_zone_name(
        sysfs.read_sysfs_text(zone.with_name(f"intel-rapl:{match[1]}") / "name")
        or f"package-{match[1]}"
    )
    part = f"{name}{package.removeprefix('package')}"
    return part, ("psys",) if name == "dram" else (package, "psys")


def convert_zone_name(name: str) -> str:
    """Convert a zone's name to a scope: package-0 is package0, and each of two dies in one package
    is a separate scope.
    """
    match = PACKAGE_ZONE.fullmatch(name)
    if match is None:
        return name
    return f"package{match[1]}" + (f"die{match[2]}" if match[2] else "")
