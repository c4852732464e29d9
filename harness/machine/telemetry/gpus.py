"""Samples GPUs through NVIDIA's management library (NVML): utilisation, clocks, temperature, power,
event reasons, ECC errors.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harness.machine.telemetry.sampled import (
    STATE_PERIOD_MS,
    ChannelKind,
    SampledChannel,
    SampledReading,
)
from suite.units import MW_PER_W


def open_gpus(ordinals: Sequence[int]) -> "GpuSource | None":
    """Open GPUs by their numbers among the visible ones; None without a driver, or if none of them
    exists.
    """
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = list_visible_gpus(pynvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
    except pynvml.NVMLError:
        return None
    found = {ordinal: handles[ordinal] for ordinal in ordinals if ordinal < len(handles)}
    return GpuSource(pynvml, found) if found else None


def list_visible_gpus(library: Any, listed: str | None) -> list[Any]:
    """Return the handles of the GPUs that CUDA sees, in CUDA's order.

    Numbers in CUDA_VISIBLE_DEVICES equal NVML's if all GPUs are of one model, or with
    CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    if listed is None:
        return [
            library.nvmlDeviceGetHandleByIndex(index)
            for index in range(library.nvmlDeviceGetCount())
        ]
    words = [word.strip() for word in listed.split(",") if word.strip()]
    return [find_gpu_handle(library, word) for word in words]


def find_gpu_handle(library: Any, word: str) -> Any:
    """Return the handle of a GPU that CUDA_VISIBLE_DEVICES names by its number or UUID."""
    if word.isdecimal():
        return library.nvmlDeviceGetHandleByIndex(int(word))
    return library.nvmlDeviceGetHandleByUUID(word)


class GpuSource:
    """The GPUs' source."""

    period_ms = STATE_PERIOD_MS

    def __init__(self, library: Any, handles: dict[int, Any]) -> None:
        self.library, self.handles = library, handles

    @property
    def channels(self) -> Sequence[SampledChannel]:
        """Return one channel per GPU, with CUDA's number in its name, and model and UUID as
        facts.
        """
        return [
            SampledChannel(
                name=f"gpu{ordinal}", kind=ChannelKind.STATE, facts=self.describe_gpu(handle)
            )
            for ordinal, handle in self.handles.items()
        ]

    def describe_gpu(self, handle: Any) -> dict[str, Any]:
        """Return a GPU's model and UUID."""
        return {
            "model": self.query_library(self.library.nvmlDeviceGetName, handle),
            "uuid": self.query_library(self.library.nvmlDeviceGetUUID, handle),
        }

    def read(self) -> Iterable[SampledReading]:
        """Read all GPUs."""
        for number, handle in enumerate(self.handles.values()):
            start = time.monotonic_ns()
            state = self.read_gpu_state(handle)
            yield SampledReading(
                t_ns=(start + time.monotonic_ns()) // 2, channel=number, value=state
            )

    def read_gpu_state(self, handle: Any) -> dict[str, Any]:
        """Read one GPU; null for values that it does not report.

        `util`: 0-1; `event_reasons`: NVML's bit mask of what limits the clocks (nvml.h,
        nvmlClocksEventReason*); `ecc`: errors since the driver
        was loaded, corrected and uncorrected.
        """
        nvml = self.library
        use = self.query_library(nvml.nvmlDeviceGetUtilizationRates, handle)
        power_mw = self.query_library(nvml.nvmlDeviceGetPowerUsage, handle)
        reasons = (
            getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
            or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        )
        return {
            "util": None if use is None else use.gpu / 100,
            "sm_mhz": self.query_library(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "mem_mhz": self.query_library(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            "temp_c": self.query_library(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            "power_w": None if power_mw is None else power_mw / MW_PER_W,
            "event_reasons": self.query_library(reasons, handle),
            "ecc": [
                self.count_ecc_errors(handle, kind)
                for kind in (
                    nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
                    nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                )
            ],
        }

    def count_ecc_errors(self, handle: Any, kind: int) -> int | None:
        """Count ECC errors of one kind."""
        count: int | None = self.query_library(
            self.library.nvmlDeviceGetTotalEccErrors, handle, kind, self.library.NVML_VOLATILE_ECC
        )
        return count

    def query_library(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the library; None if the GPU or the driver does not report the value."""
        try:
            answer = function(*arguments)
        except self.library.NVMLError:
            return None
        if isinstance(answer, bytes):
            return answer.decode()
        return answer

    def close(self) -> None:
        """Shut the library down."""
        self.library.nvmlShutdown()
