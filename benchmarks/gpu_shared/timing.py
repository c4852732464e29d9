"""Times steps: on a GPU by its events, on a CPU by the clock."""

import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch

WARM_UP_STEPS: Final = 8
LEAST_STEPS: Final = 20
EXTRA_STEPS: Final = 5
"""Steps whose host and GPU time are measured apart."""
SLEEP_CYCLES_PER_S: Final = 3e9
"""More than any card's clock has, so that the GPU still sleeps when the host has enqueued a
step.
"""
WAIT_WARNING: Final = "synchronizing CUDA operation"
"""In the warning of torch.cuda.set_sync_debug_mode: c10/cuda/CUDAFunctions.cpp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Medians over steps."""

    rate: float
    """Samples per second of one step after another."""
    step_ms: float
    host_ms: float
    """Of a step whose work the GPU has not begun: what the host takes to enqueue it."""
    gpu_ms: float | None
    """Of a step that was enqueued before the GPU began it; None without a GPU. A step in which the
    host waits cannot be enqueued at once: its figure includes the waiting.
    """
    waits: int | None
    peak_gb: float | None
    steps: int

    def describe(self) -> dict[str, Any]:
        """Return what a line's details say."""
        return {name: value for name, value in asdict(self).items() if name != "rate"}


def measure_steps(
    steps: Iterator[int], device: str, *, count: int = LEAST_STEPS, warm_up: int = WARM_UP_STEPS
) -> StepTimes:
    """Measure an iterator that takes a step each time and yields its samples."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    for _ in range(warm_up):
        next(steps)
    if not device.startswith("cuda"):
        return measure_steps_on_host(steps, count)
    timed = time_steps_by_events(steps, count)
    host_ms = statistics.median(time_enqueueing(steps) for _ in range(EXTRA_STEPS))
    return StepTimes(
        rate=statistics.median(samples / ms * 1e3 for samples, ms in timed),
        step_ms=statistics.median(ms for _, ms in timed),
        host_ms=host_ms,
        gpu_ms=statistics.median(time_queued_step(steps, host_ms) for _ in range(EXTRA_STEPS)),
        waits=count_waits(steps),
        peak_gb=torch.cuda.max_memory_allocated() / 1e9,
        steps=count,
    )


def measure_steps_on_host(steps: Iterator[int], count: int) -> StepTimes:
    """Measure steps on a CPU, where nothing runs ahead."""
    timed = []
    for _ in range(count):
        began_s = time.perf_counter()
        samples = next(steps)
        timed.append((samples, (time.perf_counter() - began_s) * 1e3))
    step_ms = statistics.median(ms for _, ms in timed)
    return StepTimes(
        rate=statistics.median(samples / ms * 1e3 for samples, ms in timed),
        step_ms=step_ms,
        host_ms=step_ms,
        gpu_ms=None,
        waits=None,
        peak_gb=None,
        steps=count,
    )


def time_steps_by_events(steps: Iterator[int], count: int) -> list[tuple[int, float]]:
    """Return samples and ms of steps, one after another."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    samples = []
    for event in events[1:]:
        samples.append(next(steps))
        event.record()
    events[-1].synchronize()
    times = [first.elapsed_time(last) for first, last in zip(events, events[1:], strict=False)]
    return list(zip(samples, times, strict=True))


def time_enqueueing(steps: Iterator[int]) -> float:
    """Return the ms that the host takes for a step, from an idle GPU on."""
    torch.cuda.synchronize()
    began_s = time.perf_counter()
    next(steps)
    return (time.perf_counter() - began_s) * 1e3


def time_queued_step(steps: Iterator[int], host_ms: float) -> float:
    """Return the ms that the GPU takes for a step that is enqueued while it sleeps."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(int(host_ms / 1e3 * SLEEP_CYCLES_PER_S))
    first.record()
    next(steps)
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last))


def count_waits(steps: Iterator[int]) -> int:
    """Count the operations of a step for which the host waits."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum(WAIT_WARNING in str(warning.message) for warning in caught)


def measure_throughput(
    steps: Iterator[int], device: str, *, count: int = LEAST_STEPS, warm_up: int = WARM_UP_STEPS
) -> float:
    """Return the samples per second of all steps together, as where a loader delivers in bursts."""
    for _ in range(warm_up):
        next(steps)
    began_s = read_settled_clock(device)
    samples = sum(next(steps) for _ in range(count))
    return samples / (read_settled_clock(device) - began_s)


def read_settled_clock(device: str) -> float:
    """Return the time, in s, at which the device has finished its work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()
