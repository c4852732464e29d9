"""Worker processes that the machine chooses: its cores less two, as far as memory reaches."""

import math
import os
import shutil
from types import SimpleNamespace

import psutil
import pytest

from harness import data_workers, request
from harness.data_workers import WorkerLimits, choose_worker_count
from suite.units import MIB

MUCH_MIB = 1e6


@pytest.mark.parametrize(
    ("cores", "memory_mib", "shared_mib", "count", "why"),
    [
        (16, MUCH_MIB, MUCH_MIB, 14, "16 cores less 2"),
        (3, MUCH_MIB, MUCH_MIB, 1, "3 cores less 2"),
        (2, MUCH_MIB, MUCH_MIB, 1, "2 cores less 2"),
        (1, MUCH_MIB, MUCH_MIB, 1, "1 core less 2"),
        (16, 5 * 1024.0, MUCH_MIB, 5, "5,120 MiB of memory free"),
        (16, 100.0, MUCH_MIB, 1, "100 MiB of memory free"),
        (16, MUCH_MIB, 64.0, 1, "64 MiB of /dev/shm free"),
        (16, MUCH_MIB, 270.0, 4, "270 MiB of /dev/shm free"),
        (16, MUCH_MIB, 63.0, 0, "63 MiB of /dev/shm free"),
        (2, 100.0, 0.0, 0, "0 MiB of /dev/shm free"),
    ],
)
def test_the_scarcest_limit_decides_and_is_named(
    cores: int, memory_mib: float, shared_mib: float, count: int, why: str
) -> None:
    """Without a worker a GPU would wait for one core, so there is one; but not where the system
    would end it for want of room, and the run with it.
    """
    limits = WorkerLimits(cores=cores, memory_mib=memory_mib, shared_memory_mib=shared_mib)
    chosen, reason = choose_worker_count(limits)
    assert chosen == count and reason.startswith(why)


@pytest.mark.parametrize(
    ("cores", "shared_mib", "told"),
    [
        (16, 14 * 64.0, ""),
        (2, 64.0, ""),
        (
            16,
            64.0,
            "/dev/shm: 64 MiB free, so that data.workers=auto is 1, not 14; give it 896 MiB (docker"
            " run --shm-size=896m)",
        ),
        (
            3,
            2.5,
            "/dev/shm: 2.5 MiB free, so that data.workers=auto is 0, not 1; give it 64 MiB (docker"
            " run --shm-size=64m)",
        ),
    ],
)
def test_shared_memory_that_allows_fewer_workers_is_told(
    cores: int, shared_mib: float, told: str
) -> None:
    """A container has 64 MiB of it, in which 13 of 16 cores would have had nothing to do, and
    nobody would have known why.
    """
    limits = WorkerLimits(cores=cores, memory_mib=MUCH_MIB, shared_memory_mib=shared_mib)
    assert data_workers.describe_shared_memory_limit(limits) == told


def test_ranks_of_a_machine_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight ranks with 14 workers each would be seven times as many as the cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * 4096 * MIB))
    usage = SimpleNamespace(total=1024 * MIB, free=800 * MIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    for name in ("measure_allowed_cores", "measure_allowed_memory_mib"):
        monkeypatch.setattr(data_workers, name, lambda: math.inf)
    found = data_workers.measure_worker_limits()
    assert found == WorkerLimits(cores=4, memory_mib=4096.0, shared_memory_mib=100.0)
    monkeypatch.setattr(data_workers, "measure_allowed_cores", lambda: 20.5)
    monkeypatch.setattr(data_workers, "measure_allowed_memory_mib", lambda: 8000.0)
    found = data_workers.measure_worker_limits()  # a container's share of that machine
    assert found == WorkerLimits(cores=2, memory_mib=1000.0, shared_memory_mib=100.0)


def test_auto_becomes_a_number_before_anything_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a number that somebody gave stays."""
    limits = WorkerLimits(cores=6, memory_mib=MUCH_MIB, shared_memory_mib=MUCH_MIB)
    monkeypatch.setattr(request, "measure_worker_limits", lambda: limits)
    settled, why = request.settle_data_workers({"data.workers": "auto", "lr": 0.1})
    assert settled == {"data.workers": 4, "lr": 0.1} and why.startswith("6 cores less 2")
    assert request.settle_data_workers({"data.workers": 3}) == ({"data.workers": 3}, "")
