"""What a container may use of its machine: the kernel's control groups, of version 1 or 2
(docs.kernel.org, admin-guide: cgroup-v1, cgroup-v2). Neither the count of cores nor the free memory
of the machine knows them.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from suite.units import MIB

OWN_GROUPS: Final = Path("/proc/self/cgroup")
GROUP_ROOT: Final = Path("/sys/fs/cgroup")
VERSION_2_HIERARCHY: Final = "0"
CACHE_KEYS: Final = ("inactive_file", "total_inactive_file")
"""Of memory.stat: file contents that the kernel gives up where memory is asked for."""


def iterate_group_folders(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's group and of those above it, whose limits hold, too."""
    with suppress(OSError, ValueError):
        for line in OWN_GROUPS.read_text().splitlines():
            hierarchy, controllers, group = line.split(":", 2)
            if hierarchy == VERSION_2_HIERARCHY:
                root = GROUP_ROOT
            elif controller in controllers.split(","):
                root = GROUP_ROOT / controller
            else:
                continue
            if ".." not in group:
                names = [name for name in group.split("/") if name]
            else:
                names = []
            for depth in range(len(names), -1, -1):
                yield root.joinpath(*names[:depth])


def read_group_numbers(path: Path) -> list[float]:
    """Return the numbers in a file of a group, inf for what has no limit; empty if there is no such
    file.
    """
    with suppress(OSError, ValueError):
        found = [math.inf if word == "max" else float(word) for word in path.read_text().split()]
        return [math.inf if number < 0 else number for number in found]
    return []


def read_cache_bytes(folder: Path) -> float:
    """Return the bytes of a group's memory that its files take and that can be given up."""
    with suppress(OSError, ValueError):
        lines = (folder / "memory.stat").read_text().splitlines()
        stated = dict(line.split(maxsplit=1) for line in lines if line.strip())
        return max(float(stated.get(key, 0)) for key in CACHE_KEYS)
    return 0.0


def measure_allowed_memory_mib() -> float:
    """Return what this process's groups may still take; inf without a limit."""
    left_mib = math.inf
    for folder in iterate_group_folders("memory"):
        for limit, usage in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            numbers = read_group_numbers(folder / limit) + read_group_numbers(folder / usage)
            if len(numbers) == 2:
                left = numbers[0] - numbers[1] + read_cache_bytes(folder)
                left_mib = min(left_mib, max(0.0, left) / MIB)
    return left_mib


def measure_allowed_cores() -> float:
    """Return how many cores' time this process's groups may take; inf without a limit."""
    cores = math.inf
    for folder in iterate_group_folders("cpu"):
        for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            numbers = [each for name in names for each in read_group_numbers(folder / name)]
            if len(numbers) == 2 and numbers[1]:
                cores = min(cores, numbers[0] / numbers[1])
    return cores
