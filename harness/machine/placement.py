"""Divides this machine's cores among instances: groups of equal size that keep to one NUMA node where they fit."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.machine.cpus import BUSY_SHARE, busy_share
from suite.errors import RequestError
from suite.rounds import HyperValue

INSTANCES: Final = "sut.instances"
NODES: Final = Path("/sys/devices/system/node")
"""The kernel's NUMA nodes: Documentation/ABI/stable/sysfs-devices-node."""


def instances_of(settings: Mapping[str, HyperValue]) -> int:
    """Return the number of instances asked for, 0 for a system in LoadGen's own process; RequestError if this machine cannot hold them."""
    value = settings.get(INSTANCES)
    count, cores = value if isinstance(value, int) else 0, len(os.sched_getaffinity(0))
    if count < 0:
        raise RequestError(f"setting {INSTANCES}: {count} is below 0")
    if count > cores:
        raise RequestError(f"setting {INSTANCES}: {count} instances are too many for {cores} cores")
    return count


def place(instances: int) -> tuple[tuple[int, ...], ...]:
    """Return each instance's cores; none where others use the cores, since a pinned process cannot avoid them."""
    if not instances or busy_share() > BUSY_SHARE:
        return ((),) * instances
    return groups(by_node(sorted(os.sched_getaffinity(0)), nodes(NODES)), instances)


def usual_groups() -> tuple[tuple[int, ...], ...]:
    """Return the cores of each instance where there is one for each NUMA node, or two on a machine with one node; one with a single core."""
    cores, numa = sorted(os.sched_getaffinity(0)), nodes(NODES)
    count = max(2, len({numa.get(core, 0) for core in cores}))
    return groups(by_node(cores, numa), min(count, len(cores)))


def written(cores: Sequence[int]) -> str:
    """Write numbers in ascending order as the kernel's lists have them: `0-3,8`."""
    if not cores:
        return ""
    starts = [place for place, core in enumerate(cores) if place == 0 or core != cores[place - 1] + 1]
    parts = (cores[first:last] for first, last in zip(starts, [*starts[1:], len(cores)], strict=True))
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def groups(cores: Sequence[int], instances: int) -> tuple[tuple[int, ...], ...]:
    """Cut the cores into groups of equal size, in their order; cores that are left over stay free for LoadGen."""
    each = len(cores) // instances
    return tuple(tuple(cores[number * each : (number + 1) * each]) for number in range(instances))


def by_node(cores: Sequence[int], numa: Mapping[int, int]) -> list[int]:
    """Order cores by NUMA node."""
    return sorted(cores, key=lambda core: (numa.get(core, 0), core))


def nodes(folder: Path) -> dict[int, int]:
    """Return each core's NUMA node; empty where the kernel does not tell."""
    return {core: int(path.parent.name[4:]) for path in folder.glob("node[0-9]*/cpulist") for core in listed(path.read_text("ascii"))}


def listed(text: str) -> Iterator[int]:
    """Yield the numbers of a kernel list such as `0-3,8`."""
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
