"""Counts the available cores, their use by other programs, and the threads to start; before the
clock, never inside it.

Threads that share a kernel's work wait for one another at its end. A thread that shares its core
with another program delays the others at every kernel: with the small kernels of a recurrent
network, two threads on two busy cores are several times slower than one alone.
"""

import os
from typing import Final

CPU_PROBE_S: Final = 0.5
"""Length of one measurement of other programs' CPU use."""
MAX_CPU_PROBES: Final = 3
"""A busy measurement is repeated: load that ends within a second, such as an installation's last
writes, does not count.
"""
BUSY_SHARE: Final = 0.1
"""0-1: a host with more CPU use by other programs is too busy for reliable measurements."""


def count_available_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def measure_busy_share() -> float:
    """Return the share of this process's cores that other programs use, 0-1: the least of several
    measurements if the first is above BUSY_SHARE.
    """
    share = measure_cpu_use()
    for _ in range(MAX_CPU_PROBES - 1):
        if share <= BUSY_SHARE:
            break
        share = min(share, measure_cpu_use())
    return share


def measure_cpu_use() -> float:
    """Measure the cores' use for a moment while this process is idle."""
    import psutil  # late, as everywhere in the harness

    shares: list[float] = psutil.cpu_percent(interval=CPU_PROBE_S, percpu=True)
    own = (
        [share for core, share in enumerate(shares) if core in os.sched_getaffinity(0)]
        or shares
        or [0.0]
    )
    return sum(own) / len(own) / 100


def choose_core_count(share: float, *, large_kernels: bool = False) -> int:
    """Return the cores to use: all if other programs use little or the kernels are large, else the
    free ones, but at least half.

    Large kernels gain more by a thread on a shared core than its barriers cost. Training beside two
    busy loops on two cores, one thread and two, in parts of the quiet rate: SSD 0.35 to 0.38 and
    0.46 to 0.47, Mask R-CNN 0.37 to 0.45 and 0.45; ResNet-50 0.46 and 0.41, GNMT 0.61 and 0.34. Two
    threads beside two loops can have 0.5 at most.
    """
    cores = count_available_cores()
    if share <= BUSY_SHARE or large_kernels:
        return cores
    return max((cores + 1) // 2, cores - round(share * cores))
