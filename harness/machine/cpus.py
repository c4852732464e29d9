"""Counts the available cores, their use by other programs, and the threads to start; before the clock, never inside it.

Threads that share the work of a kernel wait for one another at its end. One that shares its core with another program keeps the others waiting at
every kernel: with the small kernels of a recurrent network, two threads on two busy cores are slower than one alone, several times over.
"""

import os
from typing import Final

LOOK_S: Final = 0.5
"""How long the cores are watched for others' work."""
LOOKS: Final = 3
"""A busy look is repeated: what is over in a second, such as an installation's last writes, does not count."""
BUSY_SHARE: Final = 0.1
"""0-1: a host of whose cores others use more is too busy to be measured for good."""


def available() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def busy_share() -> float:
    """Give the share of this process' cores that others use, 0-1: the least of some looks, where the first one saw more than a little."""
    share = look()
    for _ in range(LOOKS - 1):
        if share <= BUSY_SHARE:
            break
        share = min(share, look())
    return share


def look() -> float:
    """Watch the cores for a moment while this process does nothing."""
    import psutil  # late, as everywhere in the harness

    shares: list[float] = psutil.cpu_percent(interval=LOOK_S, percpu=True)
    own = [share for core, share in enumerate(shares) if core in os.sched_getaffinity(0)] or shares or [0.0]
    return sum(own) / len(own) / 100


def left(share: float) -> int:
    """Count the cores to take: all of them where others use no more than a little, else those that others leave, and at least a fair half."""
    cores = available()
    return cores if share <= BUSY_SHARE else max((cores + 1) // 2, cores - round(share * cores))
