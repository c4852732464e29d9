"""The machine: what all fractions are fractions of."""

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from gpu_shared.timing import read_settled_clock
from gpu_shared.workbench import Workbench

REPETITIONS: Final = 10
LAUNCHES: Final = 1000
SHARED_MEMORY: Final = Path("/dev/shm")


def measure_machine(bench: Workbench) -> None:
    """Measure arithmetic, memory, copies and the launch of a kernel."""
    bench.attempt("bf16 matrix product", lambda name: measure_product(bench, name))
    bench.attempt("copy on the device", lambda name: measure_device_copy(bench, name))
    for name in ("copy from pinned memory", "copy from pageable memory"):
        bench.attempt(name, lambda name: measure_host_copy(bench, name))
    bench.attempt("launch of a kernel", lambda name: measure_launch(bench, name))


def time_call(bench: Workbench, call: Callable[[], object]) -> float:
    """Return the median seconds of a call, with the device's work."""
    call()
    times = []
    for _ in range(REPETITIONS):
        began_s = read_settled_clock(bench.device)
        call()
        times.append(read_settled_clock(bench.device) - began_s)
    return statistics.median(times)


def measure_product(bench: Workbench, name: str) -> None:
    """Multiply two square matrices."""
    side = bench.sizes.matrix
    left, right = (
        torch.randn(side, side, device=bench.device, dtype=torch.bfloat16) for _ in range(2)
    )
    seconds = time_call(bench, lambda: left @ right)
    bench.tell(name, 2 * side**3 / seconds / 1e12, "TFLOP/s", details=describe_machine())


def measure_device_copy(bench: Workbench, name: str) -> None:
    """Copy within the device's memory; each byte is read and written."""
    source = torch.zeros(bench.sizes.copied_mb * 1_000_000, dtype=torch.uint8, device=bench.device)
    target = torch.empty_like(source)
    seconds = time_call(bench, lambda: target.copy_(source))
    bench.tell(name, 2 * source.numel() / seconds / 1e12, "TB/s")


def measure_host_copy(bench: Workbench, name: str) -> None:
    """Copy from host memory."""
    pinned = "pinned" in name and bench.on_gpu
    source = torch.zeros(bench.sizes.copied_mb * 1_000_000, dtype=torch.uint8)
    source = source.pin_memory() if pinned else source
    target = torch.empty_like(source, device=bench.device)
    seconds = time_call(bench, lambda: target.copy_(source, non_blocking=True))
    bench.tell(name, source.numel() / seconds / 1e9, "GB/s")


def measure_launch(bench: Workbench, name: str) -> None:
    """Enqueue small kernels faster than the device can be asked for them."""
    number = torch.zeros(1, device=bench.device)
    number.add_(1)
    read_settled_clock(bench.device)
    began_s = time.perf_counter()
    for _ in range(LAUNCHES):
        number.add_(1)
    bench.tell(name, (time.perf_counter() - began_s) / LAUNCHES * 1e6, "us")


def describe_machine() -> dict[str, Any]:
    """Describe what the figures depend on."""
    shared = shutil.disk_usage(SHARED_MEMORY).total if SHARED_MEMORY.is_dir() else 0
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "cores": len(os.sched_getaffinity(0)),
        "shared_memory_gb": shared / 1e9,
        "load": os.getloadavg()[0],
    }
