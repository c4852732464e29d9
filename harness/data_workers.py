"""Chooses how many worker processes decode training data where `data.workers` is `auto`."""

from dataclasses import dataclass
from typing import Final

from harness.failures import SHARED_MEMORY, read_shared_memory_mib
from harness.machine.container_limits import measure_allowed_cores, measure_allowed_memory_mib
from harness.machine.cpus import count_available_cores
from suite.human_numbers import format_whole_digits
from suite.process.launcher import read_launcher_variable
from suite.rounds.settings import AUTOMATIC_VALUE, DATA_WORKERS_SETTING
from suite.units import MIB

CORES_KEPT_FREE: Final = 2
"""House rule: one for the thread that trains, one for the threads that feed the device."""
WORKER_MEMORY_MIB: Final = 1024.0
"""House rule: room for a worker's own copies of what it inherited, pictures and batches."""
WORKER_SHARED_MEMORY_MIB: Final = 64.0
"""House rule: two batches of 64 pictures of 224 pixels take 18 MiB, of larger ones more. It is what
docker gives a container.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """What this rank can give to worker processes; the ranks of a machine share it evenly."""

    cores: int
    memory_mib: float
    """Memory that is free."""
    shared_memory_mib: float
    """What is free of /dev/shm; 0 without one."""


def count_local_ranks() -> int:
    """Count the ranks on this machine, which share it."""
    return max(1, read_launcher_variable("LOCAL_WORLD_SIZE", 1))


def count_rank_cores() -> int:
    """Count this rank's share of the cores that the machine, or a container's limit, allows; at
    least 1.
    """
    cores = min(count_available_cores(), measure_allowed_cores())
    return max(1, int(cores / count_local_ranks()))


def measure_worker_limits() -> WorkerLimits:
    """Measure this rank's share of the machine."""
    import psutil  # late, as everywhere in the harness

    ranks = count_local_ranks()
    sizes = read_shared_memory_mib()
    free_mib = min(psutil.virtual_memory().available / MIB, measure_allowed_memory_mib())
    return WorkerLimits(
        cores=count_rank_cores(),
        memory_mib=free_mib / ranks,
        shared_memory_mib=(sizes[1] if sizes else 0.0) / ranks,
    )


def choose_worker_count(limits: WorkerLimits) -> tuple[int, str]:
    """Return the worker processes of this rank, and why not more. There is at least one, without
    which a device would wait for one core; but none where shared memory has no room for one, which
    the system would end.
    """
    processes, why = choose_process_count(limits)
    room = count_workers_with_room(limits)
    if processes <= room:
        return processes, why
    return room, (
        f"{limits.shared_memory_mib:,.0f} MiB of {SHARED_MEMORY} free,"
        f" {WORKER_SHARED_MEMORY_MIB:,.0f} for each (docker run --shm-size gives more)"
    )


def choose_process_count(limits: WorkerLimits) -> tuple[int, str]:
    """Return as many processes as cores and memory allow, at least 1, and which of them decides."""
    by_cores = limits.cores - CORES_KEPT_FREE
    by_memory = int(limits.memory_mib / WORKER_MEMORY_MIB)
    if by_cores <= by_memory:
        why = f"{limits.cores} {'core' if limits.cores == 1 else 'cores'} less {CORES_KEPT_FREE}"
    else:
        why = f"{limits.memory_mib:,.0f} MiB of memory free, {WORKER_MEMORY_MIB:,.0f} for each"
    return max(1, min(by_cores, by_memory)), f"{why}, at least 1"


def count_workers_with_room(limits: WorkerLimits) -> int:
    """Count the workers for whose batches shared memory suffices."""
    return int(limits.shared_memory_mib / WORKER_SHARED_MEMORY_MIB)


def describe_shared_memory_limit(limits: WorkerLimits) -> str:
    """Say that shared memory allows fewer workers than cores and memory do, and how much would
    suffice; "" if it does not.
    """
    processes, _ = choose_process_count(limits)
    room = count_workers_with_room(limits)
    if processes <= room:
        return ""
    needed_mib = int(processes * WORKER_SHARED_MEMORY_MIB)
    return (
        f"{SHARED_MEMORY}: {format_whole_digits(limits.shared_memory_mib)} MiB free, so that"
        f" {DATA_WORKERS_SETTING}={AUTOMATIC_VALUE} is {room}, not {processes}; give it"
        f" {needed_mib} MiB (docker run --shm-size={needed_mib}m)"
    )
