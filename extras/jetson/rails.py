"""Rails of Jetson boards, measured by INA3221 chips: sysfs in both forms of NVIDIA's kernels,
readable by any user.

Source: kernel documentation, hwmon/ina3221.rst: `in*_label`, `in*_input` in mV, `curr*_input` in
mA; `in7` and `curr4` are sums of the shunts. Older kernels (L4T 32) have `rail_name_*` and
`in_power*_input` in mW below an iio device.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from extras.jetson.boards import identify_board, resolve_rail_scope
from harness.machine.power import sysfs
from suite.power import Channel, Grade, PowerReading, Quantity
from suite.units import UW_PER_MW

INA3221_DRIVERS: Final = ("sys/bus/i2c/drivers/ina3221", "sys/bus/i2c/drivers/ina3221x")
CHIP_CHANNELS: Final = (1, 2, 3)
"""Channels of a chip; higher numbers are sums of these."""
UNCONNECTED_LABELS: Final = frozenset({"NC", ""})
RAIL_LABEL: Final = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


class Rails:
    """The board's rails."""

    name: ClassVar[str] = "ina3221"

    def __init__(self) -> None:
        self.ways: dict[str, tuple[tuple[Path, ...], int]] = {}
        """Channel -> files whose product is the power, and the factor from that product to uW."""

    def probe(self, root: Path) -> Sequence[Channel] | str:
        """Find the readable rails."""
        found, known = list(find_readable_rails(root)), identify_board(root)
        if not found:
            return (
                f"no INA3221 below {' or '.join('/' + driver for driver in INA3221_DRIVERS)}: this"
                " is no Jetson"
            )
        scopes = {
            label: resolve_rail_scope(label, known, [each for each, _, _ in found])
            for label, _, _ in found
        }
        return [
            self.build_channel(label, files, per, scopes[label], known.name if known else "unknown")
            for label, files, per in found
        ]

    def build_channel(
        self,
        label: str,
        files: tuple[Path, ...],
        per: int,
        scopes: tuple[str, tuple[str, ...]],
        name_of_board: str,
    ) -> Channel:
        """Build a rail's channel."""
        scope, within = scopes
        facts: dict[str, Any] = {"rail": label, "board": name_of_board}
        name = f"{self.name}:{label}"
        self.ways[name] = (files, per)
        return Channel(
            name=name,
            source=self.name,
            grade=Grade.SENSOR,
            scope=scope,
            within=within,
            quantity=Quantity.POWER,
            facts=facts,
        )

    def read(self, channel: Channel) -> PowerReading:
        """Read a rail."""
        files, per = self.ways[channel.name]
        reading = sysfs.read_stamped_value(*files)
        return PowerReading(t_ns=reading.t_ns, value=reading.value * per)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def find_readable_rails(root: Path) -> Iterator[tuple[str, tuple[Path, ...], int]]:
    """Yield (label, files, factor to uW) of each readable rail, each label once."""
    known_labels: set[str] = set()
    for driver in INA3221_DRIVERS:
        for label, files, factor in (
            *iterate_hwmon_rails(root / driver),
            *iterate_iio_rails(root / driver),
        ):
            readable = all(sysfs.find_sysfs_number(file) is not None for file in files)
            if (
                label not in UNCONNECTED_LABELS
                and RAIL_LABEL.fullmatch(label)
                and label not in known_labels
                and readable
            ):
                known_labels.add(label)
                yield label, files, factor


def iterate_hwmon_rails(driver: Path) -> Iterator[tuple[str, tuple[Path, ...], int]]:
    """Yield the rails of the current form: mV times mA is uW."""
    for folder in sorted(driver.glob("*/hwmon/hwmon*")):
        for number in CHIP_CHANNELS:
            label = sysfs.read_sysfs_text(folder / f"in{number}_label")
            yield label or "", (folder / f"in{number}_input", folder / f"curr{number}_input"), 1


def iterate_iio_rails(driver: Path) -> Iterator[tuple[str, tuple[Path, ...], int]]:
    """Yield the rails of the older form, in mW."""
    for folder in sorted(driver.glob("*/iio:device*")):
        for number in range(len(CHIP_CHANNELS)):
            label = sysfs.read_sysfs_text(folder / f"rail_name_{number}")
            yield label or "", (folder / f"in_power{number}_input",), UW_PER_MW
