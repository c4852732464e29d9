"""Samples the host: core use by this run and by other programs, steal, pressure, clocks,
temperatures, memory and swap.

Shares are 0-1 of the cores that this process may use, since the last reading. Fields that a machine
does not report (a virtual machine has neither clocks nor temperatures) are null. Costly fields are
read less often, and are null in between.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import psutil

from harness.machine.telemetry.sampled import (
    STATE_PERIOD_MS,
    ChannelKind,
    SampledChannel,
    SampledReading,
)
from suite.process.names import TEMPLATE_PROCESS_NAME
from suite.units import MIB, NS_PER_US

T = TypeVar("T")

MAX_FIELD_CPU_SHARE: Final = 0.0005
"""House rule: the share of one core that one costly field may take."""
MAX_SEARCH_CPU_SHARE: Final = 0.003
"""The same for the search for this run's processes: until found, a process counts as another
program's.
"""
CPUFREQ_FOLDER: Final = Path("/sys/devices/system/cpu")
CPU_PRESSURE_FILE: Final = Path("/proc/pressure/cpu")
"""Kernel documentation, accounting/psi.rst: `some ... total=` counts microseconds in which at least
one task waited for a core.
"""
CHILDREN_FILE: Final = Path("/proc/thread-self/children")
"""proc(5), /proc/pid/task/tid/children: only kernels with CONFIG_PROC_CHILDREN have it."""
USED_CPU_TIMES: Final = ("user", "nice", "system", "irq", "softirq")
"""psutil's times per core that count as used; `user` includes `guest`. Idle, iowait and steal are
read separately, other times not at all.
"""


def open_host(root_pid: int) -> "HostSource":
    """Open the host for a run whose processes descend from `root_pid`."""
    return HostSource(root_pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCounters:
    """Increasing counters; None if the machine does not have one."""

    t_ns: int
    own_s: float
    """Core seconds of this run's processes."""
    used_s: float
    """Of all processes, on the cores that this one may use; so are the next two."""
    steal_s: float
    all_s: float
    psi_us: int | None
    swap_bytes: int | None


class HostSource:
    """The host as a source."""

    period_ms = STATE_PERIOD_MS

    def __init__(self, root_pid: int) -> None:
        self.cores = sorted(os.sched_getaffinity(0))
        self.family = ProcessFamily(root_pid)
        self.clocks, self.temperatures = (
            ThrottledReading(self.read_clocks_mhz),
            ThrottledReading(read_temperatures),
        )
        self.last = self.read_counters()

    @property
    def channels(self) -> Sequence[SampledChannel]:
        """Return one channel, with the number of cores and their governors as facts."""
        return [
            SampledChannel(
                name="host",
                kind=ChannelKind.STATE,
                facts={"cores": len(self.cores), "governor": read_governors(self.cores)},
            )
        ]

    def read(self) -> Iterable[SampledReading]:
        """Read all fields."""
        before, self.last = self.last, self.read_counters()
        yield SampledReading(
            t_ns=self.last.t_ns,
            channel=0,
            value={**compute_cpu_shares(before, self.last), **self.read_host_state()},
        )

    def read_counters(self) -> HostCounters:
        """Read the increasing counters; the two that are compared are read back to back."""
        own_s, psi_us, swap_bytes = (
            self.family.sum_cpu_s(),
            read_cpu_pressure_us(),
            read_swapped_in_bytes(),
        )
        start = time.monotonic_ns()
        used_s, steal_s, all_s = sum_core_times(self.cores)
        t_ns = (start + time.monotonic_ns()) // 2
        return HostCounters(
            t_ns=t_ns,
            own_s=own_s,
            used_s=used_s,
            steal_s=steal_s,
            all_s=all_s,
            psi_us=psi_us,
            swap_bytes=swap_bytes,
        )

    def read_host_state(self) -> dict[str, Any]:
        """Read the instantaneous values."""
        memory = psutil.virtual_memory()
        return {
            "mhz": self.clocks.read(),
            "temp_c": self.temperatures.read(),
            "rss_mib": round(self.family.rss_bytes / MIB, 1),
            "free_mib": round(memory.available / MIB, 1),
        }

    def read_clocks_mhz(self) -> list[float] | None:
        """Read the clock of each core that this process may use."""
        found = psutil.cpu_freq(percpu=True)
        if len(found) > max(self.cores):
            return [round(found[core].current, 1) for core in self.cores]
        return None

    def close(self) -> None:
        """Do nothing: nothing is open."""


class ProcessFamily:
    """A process and its descendants, searched again as often as that is cheap."""

    def __init__(self, root_pid: int) -> None:
        self.root = psutil.Process(root_pid)
        self.members = ThrottledReading(self.find_processes, MAX_SEARCH_CPU_SHARE)
        self.known: list[psutil.Process] = []
        self.rss_bytes = 0

    def find_processes(self) -> list[psutil.Process]:
        """Search for descendants: from parent to child, or, where the kernel does not list
        children, among all processes.
        """
        if not CHILDREN_FILE.exists():
            return [self.root, *self.root.children(recursive=True)]
        found, later = [self.root], read_child_pids(self.root.pid)
        while later:
            with suppress(psutil.Error):
                found.append(psutil.Process(pid := later.pop()))
                later += read_child_pids(pid)
        return found

    def sum_cpu_s(self) -> float:
        """Sum the core seconds of living and ended processes, and update `rss_bytes`."""
        self.known = self.members.read() or self.known
        total_s, self.rss_bytes = 0.0, 0
        for process in self.known:
            with suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                total_s += times.user + times.system + times.children_user + times.children_system
                if process.name() != TEMPLATE_PROCESS_NAME:
                    self.rss_bytes += process.memory_info().rss
        return total_s


def read_child_pids(pid: int) -> list[int]:
    """Read the children of a process, which each of its threads has; none if it has ended.

    The cost is that of its own threads: a large machine runs thousands of processes, and to look
    through them all takes so long that a run's new processes would count as others' for a minute.
    """
    found: list[int] = []
    with suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                found += map(int, (task / "children").read_text("ascii").split())
    return found


class ThrottledReading(Generic[T]):
    """A slow reading, delayed so that it takes only a small share of one core."""

    def __init__(
        self, function: Callable[[], T | None], most_share: float = MAX_FIELD_CPU_SHARE
    ) -> None:
        self.function, self.most_share, self.next_ns = function, most_share, 0

    def read(self) -> T | None:
        """Return the value; None if it is not due, or is unreadable."""
        start = time.monotonic_ns()
        if start < self.next_ns:
            return None
        cpu = time.process_time_ns()
        try:
            return self.function()
        except (psutil.Error, OSError, RuntimeError, AttributeError, NotImplementedError):
            return None
        finally:
            self.next_ns = start + int((time.process_time_ns() - cpu) / self.most_share)


def sum_core_times(cores: Sequence[int]) -> tuple[float, float, float]:
    """Sum the seconds of these cores: used, stolen, all."""
    times = psutil.cpu_times(percpu=True)
    mine = [times[core] for core in cores if core < len(times)] or times
    used_s = sum(getattr(each, name, 0.0) for each in mine for name in USED_CPU_TIMES)
    steal_s = sum(getattr(each, "steal", 0.0) for each in mine)
    return (
        used_s,
        steal_s,
        used_s + steal_s + sum(each.idle + getattr(each, "iowait", 0.0) for each in mine),
    )


def compute_cpu_shares(before: HostCounters, after: HostCounters) -> dict[str, float | int | None]:
    """Convert two readings of the counters to shares of the cores, 0-1, and of the time."""
    all_s, used_s = after.all_s - before.all_s, after.used_s - before.used_s
    own_s = min(max(0.0, after.own_s - before.own_s), used_s)
    pressure_us = compute_increase(before.psi_us, after.psi_us)
    pressure = None
    if pressure_us is not None:
        pressure = compute_time_share(pressure_us, (after.t_ns - before.t_ns) / NS_PER_US)
    return {
        "cpu_own": compute_time_share(own_s, all_s),
        "cpu_others": compute_time_share(used_s - own_s, all_s),
        "steal": compute_time_share(after.steal_s - before.steal_s, all_s),
        "psi_some": pressure,
        "swap_in_bytes": compute_increase(before.swap_bytes, after.swap_bytes),
    }


def compute_increase(before: int | None, after: int | None) -> int | None:
    """Return a counter's increase; None unless it was read twice."""
    if before is None or after is None:
        return None
    return max(0, after - before)


def compute_time_share(part: float, whole: float) -> float | None:
    """Divide; None if no time has passed by the kernel's counters."""
    if whole > 0:
        return round(max(0.0, min(1.0, part / whole)), 4)
    return None


def read_cpu_pressure_us() -> int | None:
    """Read how long any task has waited for a core since boot; None if the kernel does not count
    it.
    """
    try:
        return int(CPU_PRESSURE_FILE.read_text("ascii").splitlines()[0].rpartition("total=")[2])
    except (OSError, ValueError, IndexError):
        return None


def read_swapped_in_bytes() -> int | None:
    """Read how many bytes were swapped in since boot."""
    try:
        return int(psutil.swap_memory().sin)
    except (OSError, RuntimeError, psutil.Error):
        return None


def read_temperatures() -> list[float] | None:
    """Read all sensors of processors and board, in degrees C; None if there are none."""
    if hasattr(psutil, "sensors_temperatures"):
        found = psutil.sensors_temperatures()
    else:
        found = {}
    return [round(each.current, 1) for name in sorted(found) for each in found[name]] or None


def read_governors(cores: Sequence[int]) -> str | None:
    """Return the cores' frequency governors, sorted; None if the machine does not report them."""
    found = set()
    for core in cores:
        with suppress(OSError, UnicodeDecodeError):
            found.add(
                (CPUFREQ_FOLDER / f"cpu{core}" / "cpufreq" / "scaling_governor")
                .read_text("ascii")
                .strip()
            )
    return ",".join(sorted(found)) or None
