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

from harness.machine.cpus import BUSY_SHARE, measure_busy_share
from harness.machine.gpu_cores import find_cores_near_gpus
from suite.errors import RequestError
from suite.process.devices import (
    CUDA,
    expand_number_list,
    format_device_name,
    format_number_list,
    parse_gpu_number,
    parse_number_spans,
)
from suite.rounds import HyperValue

INSTANCES_SETTING: Final = "sut.instances"
PIN_SETTING: Final = "sut.pin"
LOADGEN_CORES_SETTING: Final = "sut.loadgen_cores"
NUMA_FOLDER: Final = Path("/sys/devices/system/node")
"""The kernel's NUMA nodes: Documentation/ABI/stable/sysfs-devices-node."""

Cores: TypeAlias = tuple[int, ...]


class PinMode(StrEnum):
    """Whether instances are pinned to cores."""

    AUTO = "auto"
    """Where others leave the cores free."""
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePlacement:
    """Where an instance runs."""

    device: str
    cores: Cores = ()
    """The cores that it is pinned to; empty if it is not."""


def resolve_instance_count(
    settings: Mapping[str, HyperValue], devices: Sequence[str] = ("cpu",)
) -> int:
    """Return the number of instances asked for, 0 for a system in LoadGen's own process;
    RequestError if this machine cannot hold them.

    With several devices, the setting is the number on each, and at least one.
    """
    value = settings.get(INSTANCES_SETTING)
    each, reserved_cores = value if isinstance(value, int) else 0, parse_loadgen_cores(settings)
    cores = len(os.sched_getaffinity(0)) - len(reserved_cores)
    if each < 0:
        raise RequestError(f"setting {INSTANCES_SETTING}: {each} is below 0")
    count = each if len(devices) == 1 else len(devices) * max(each, 1)
    if count > cores:
        if len(devices) == 1:
            requested = f"setting {INSTANCES_SETTING}"
        else:
            requested = f"--device {format_device_name(devices)}"
        remaining = ""
        if reserved_cores:
            remaining = f" that {LOADGEN_CORES_SETTING} leaves"
        raise RequestError(
            f"{requested}: {count} instances are too many for {cores} cores{remaining}"
        )
    if not count and (
        alone := [key for key in (PIN_SETTING, LOADGEN_CORES_SETTING) if settings.get(key)]
    ):
        raise RequestError(
            f"setting {alone[0]}: the system under test is in LoadGen's own process; add --set"
            f" {INSTANCES_SETTING}=N or several devices"
        )
    return count


def parse_loadgen_cores(settings: Mapping[str, HyperValue]) -> Cores:
    """Return the cores that LoadGen's process has alone, in ascending order; RequestError for a
    malformed list or for cores that are not there.
    """
    text = str(settings.get(LOADGEN_CORES_SETTING) or "")
    if not text:
        return ()
    found, usable = expand_number_list(text), os.sched_getaffinity(0)
    if found is None:
        raise RequestError(
            f"setting {LOADGEN_CORES_SETTING}: {text} is no list of cores such as 0-1,4"
        )
    if absent := [core for core in found if core not in usable]:
        raise RequestError(
            f"setting {LOADGEN_CORES_SETTING}: podium may not use core {absent[0]} here; it has"
            f" {format_number_list(sorted(usable))}"
        )
    return found


def place_instances(
    devices: Sequence[str], instances: int, settings: Mapping[str, HyperValue] | None = None
) -> tuple[InstancePlacement, ...]:
    """Place instances, as many on each device; unless told to, without cores where others use them,
    since a pinned process cannot avoid them.
    """
    instance_devices = [device for device in devices for _ in range(instances // len(devices))]
    pin = PinMode(str((settings or {}).get(PIN_SETTING) or PinMode.AUTO))
    if (
        not instance_devices
        or pin is PinMode.OFF
        or (pin is PinMode.AUTO and measure_busy_share() > BUSY_SHARE)
    ):
        return tuple(InstancePlacement(device=device) for device in instance_devices)
    return pin_instances(instance_devices, parse_loadgen_cores(settings or {}))


def pin_instances(
    instance_devices: Sequence[str], reserved_cores: Cores = ()
) -> tuple[InstancePlacement, ...]:
    """Assign each instance cores near its device, except the `reserved_cores` of LoadGen; by NUMA
    node for processors, and where NVML does not tell.
    """
    cores, numa = (
        sorted(os.sched_getaffinity(0) - set(reserved_cores)),
        read_numa_nodes(NUMA_FOLDER),
    )
    near = find_cores_near_devices(instance_devices, frozenset(cores)) or dict.fromkeys(
        instance_devices, frozenset(cores)
    )
    sharing = Counter(near[device] for device in instance_devices)
    size = min(len(shared) // count for shared, count in sharing.items())
    parts = {
        shared: iter(split_cores(sort_by_numa_node(sorted(shared), numa), count))
        for shared, count in sharing.items()
    }
    return tuple(
        InstancePlacement(device=device, cores=next(parts[near[device]])[:size])
        for device in instance_devices
    )


def pin_process(cores: Cores) -> None:
    """Pin all threads of this process; those that start later inherit it."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), cores)


def find_cores_near_devices(
    instance_devices: Sequence[str], cores: frozenset[int]
) -> dict[str, frozenset[int]]:
    """Return the cores near each GPU; nothing unless they are told of all, enough for all, and
    those of two GPUs either equal or apart.
    """
    if not all(device.startswith(CUDA) for device in instance_devices):
        return {}
    reported = find_cores_near_gpus(sorted(set(map(parse_gpu_number, instance_devices))))
    near = {
        device: reported.get(parse_gpu_number(device), frozenset()) & cores
        for device in instance_devices
    }
    sharing = Counter(near[device] for device in instance_devices)
    apart = sum(map(len, sharing)) == len(frozenset().union(*sharing))
    if apart and all(len(shared) >= count for shared, count in sharing.items()):
        return near
    return {}


def choose_default_core_groups() -> tuple[Cores, ...]:
    """Return the cores of each instance where there is one for each NUMA node, or two on a machine
    with one node; one with a single core.
    """
    cores, numa = sorted(os.sched_getaffinity(0)), read_numa_nodes(NUMA_FOLDER)
    count = max(2, len({numa.get(core, 0) for core in cores}))
    return split_cores(sort_by_numa_node(cores, numa), min(count, len(cores)))


def split_cores(cores: Sequence[int], instances: int) -> tuple[Cores, ...]:
    """Cut the cores into groups of equal size, in their order; cores that are left over stay free
    for LoadGen.
    """
    each = len(cores) // instances
    return tuple(tuple(cores[number * each : (number + 1) * each]) for number in range(instances))


def sort_by_numa_node(cores: Sequence[int], numa: Mapping[int, int]) -> list[int]:
    """Order cores by NUMA node."""
    return sorted(cores, key=lambda core: (numa.get(core, 0), core))


def read_numa_nodes(folder: Path) -> dict[int, int]:
    """Return each core's NUMA node; empty where the kernel does not tell."""
    return {
        core: int(path.parent.name[4:])
        for path in folder.glob("node[0-9]*/cpulist")
        for core in parse_kernel_list(path.read_text("ascii"))
    }


def parse_kernel_list(text: str) -> Iterator[int]:
    """Yield the numbers of a kernel list such as `0-3,8`."""
    yield from (
        number
        for low, high in parse_number_spans(text.strip()) or ()
        for number in range(low, high + 1)
    )
