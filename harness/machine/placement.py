"""Divides this machine's cores among instances: groups of equal size, near the instance's GPU, or
else of one NUMA node where they fit.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from harness.machine.cpus import BUSY_SHARE, busy_share
from harness.machine.gpu_cores import cores_near
from suite.errors import RequestError
from suite.process.devices import CUDA, expanded, name_of, ordinal, spans, written
from suite.rounds import HyperValue

INSTANCES: Final = "sut.instances"
PIN: Final = "sut.pin"
LOADGEN_CORES: Final = "sut.loadgen_cores"
NODES: Final = Path("/sys/devices/system/node")
"""The kernel's NUMA nodes: Documentation/ABI/stable/sysfs-devices-node."""

Cores: TypeAlias = tuple[int, ...]


class Pin(StrEnum):
    """Whether instances are pinned to cores."""

    AUTO = "auto"
    """Where others leave the cores free."""
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an instance runs."""

    device: str
    cores: Cores = ()
    """The cores that it is pinned to; empty if it is not."""


def instances_of(settings: Mapping[str, HyperValue], devices: Sequence[str] = ("cpu",)) -> int:
    """Return the number of instances asked for, 0 for a system in LoadGen's own process;
    RequestError if this machine cannot hold them.

    With several devices, the setting is the number on each, and at least one.
    """
    value = settings.get(INSTANCES)
    each, kept = value if isinstance(value, int) else 0, loadgen_cores(settings)
    cores = len(os.sched_getaffinity(0)) - len(kept)
    if each < 0:
        raise RequestError(f"setting {INSTANCES}: {each} is below 0")
    count = each if len(devices) == 1 else len(devices) * max(each, 1)
    if count > cores:
        asked = f"setting {INSTANCES}" if len(devices) == 1 else f"--device {name_of(devices)}"
        left = f" that {LOADGEN_CORES} leaves" if kept else ""
        raise RequestError(f"{asked}: {count} instances are too many for {cores} cores{left}")
    if not count and (alone := [key for key in (PIN, LOADGEN_CORES) if settings.get(key)]):
        raise RequestError(
            f"setting {alone[0]}: the system under test is in LoadGen's own process; add --set"
            f" {INSTANCES}=N or several devices"
        )
    return count


def loadgen_cores(settings: Mapping[str, HyperValue]) -> Cores:
    """Return the cores that LoadGen's process has alone, in ascending order; RequestError for a
    malformed list or for cores that are not there.
    """
    text = str(settings.get(LOADGEN_CORES) or "")
    if not text:
        return ()
    found, here = expanded(text), os.sched_getaffinity(0)
    if found is None:
        raise RequestError(f"setting {LOADGEN_CORES}: {text} is no list of cores such as 0-1,4")
    if absent := [core for core in found if core not in here]:
        raise RequestError(
            f"setting {LOADGEN_CORES}: podium may not use core {absent[0]} here; it has"
            f" {written(sorted(here))}"
        )
    return found


def place(
    devices: Sequence[str], instances: int, settings: Mapping[str, HyperValue] | None = None
) -> tuple[Place, ...]:
    """Place instances, as many on each device; unless told to, without cores where others use them,
    since a pinned process cannot avoid them.
    """
    homes = [device for device in devices for _ in range(instances // len(devices))]
    pin = Pin(str((settings or {}).get(PIN) or Pin.AUTO))
    if not homes or pin is Pin.OFF or (pin is Pin.AUTO and busy_share() > BUSY_SHARE):
        return tuple(Place(device=device) for device in homes)
    return pinned(homes, loadgen_cores(settings or {}))


def pinned(homes: Sequence[str], kept: Cores = ()) -> tuple[Place, ...]:
    """Give each instance cores near its device, but those `kept` for LoadGen; by NUMA node for
    processors, and where NVML does not tell.
    """
    cores, numa = sorted(os.sched_getaffinity(0) - set(kept)), nodes(NODES)
    near = near_devices(homes, frozenset(cores)) or dict.fromkeys(homes, frozenset(cores))
    sharing = Counter(near[device] for device in homes)
    size = min(len(shared) // count for shared, count in sharing.items())
    parts = {
        shared: iter(groups(by_node(sorted(shared), numa), count))
        for shared, count in sharing.items()
    }
    return tuple(Place(device=device, cores=next(parts[near[device]])[:size]) for device in homes)


def pin_process(cores: Cores) -> None:
    """Pin all threads of this process; those that start later inherit it."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), cores)


def near_devices(homes: Sequence[str], cores: frozenset[int]) -> dict[str, frozenset[int]]:
    """Return the cores near each GPU; nothing unless they are told of all, enough for all, and
    those of two GPUs either equal or apart.
    """
    if not all(device.startswith(CUDA) for device in homes):
        return {}
    told = cores_near(sorted(set(map(ordinal, homes))))
    near = {device: told.get(ordinal(device), frozenset()) & cores for device in homes}
    sharing = Counter(near[device] for device in homes)
    apart = sum(map(len, sharing)) == len(frozenset().union(*sharing))
    return near if apart and all(len(shared) >= count for shared, count in sharing.items()) else {}


def usual_groups() -> tuple[Cores, ...]:
    """Return the cores of each instance where there is one for each NUMA node, or two on a machine
    with one node; one with a single core.
    """
    cores, numa = sorted(os.sched_getaffinity(0)), nodes(NODES)
    count = max(2, len({numa.get(core, 0) for core in cores}))
    return groups(by_node(cores, numa), min(count, len(cores)))


def groups(cores: Sequence[int], instances: int) -> tuple[Cores, ...]:
    """Cut the cores into groups of equal size, in their order; cores that are left over stay free
    for LoadGen.
    """
    each = len(cores) // instances
    return tuple(tuple(cores[number * each : (number + 1) * each]) for number in range(instances))


def by_node(cores: Sequence[int], numa: Mapping[int, int]) -> list[int]:
    """Order cores by NUMA node."""
    return sorted(cores, key=lambda core: (numa.get(core, 0), core))


def nodes(folder: Path) -> dict[int, int]:
    """Return each core's NUMA node; empty where the kernel does not tell."""
    return {
        core: int(path.parent.name[4:])
        for path in folder.glob("node[0-9]*/cpulist")
        for core in listed(path.read_text("ascii"))
    }


def listed(text: str) -> Iterator[int]:
    """Yield the numbers of a kernel list such as `0-3,8`."""
    yield from (
        number for low, high in spans(text.strip()) or () for number in range(low, high + 1)
    )
