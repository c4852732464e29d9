"""Lists this machine's GPUs through NVIDIA's management library; none if there is no driver."""

from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU."""

    name: str
    memory_bytes: int
    driver: str
    clock_mhz: int | None
    """Clock of its multiprocessors when read."""
    capability: tuple[int, int] | None = None
    """Compute capability: major, minor."""


@cache
def list_gpus() -> tuple[Gpu, ...]:
    """Read the GPUs once."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    with closing(NvmlSession(pynvml)) as session:
        return session.read_gpus()


class NvmlSession:
    """An open connection to the management library."""

    def __init__(self, library: Any) -> None:
        """Wrap an initialised library."""
        self._library = library

    def read_gpus(self) -> tuple[Gpu, ...]:
        """Read all GPUs."""
        driver = decode_nvml_text(self._library.nvmlSystemGetDriverVersion())
        return tuple(
            self._read_gpu(index, driver) for index in range(self._library.nvmlDeviceGetCount())
        )

    def _read_gpu(self, index: int, driver: str) -> Gpu:
        handle = self._library.nvmlDeviceGetHandleByIndex(index)
        clock = capability = None
        with suppress(self._library.NVMLError):
            clock = int(self._library.nvmlDeviceGetClockInfo(handle, self._library.NVML_CLOCK_SM))
        with suppress(self._library.NVMLError, AttributeError):
            major, minor = self._library.nvmlDeviceGetCudaComputeCapability(handle)
            capability = (int(major), int(minor))
        memory = int(self._library.nvmlDeviceGetMemoryInfo(handle).total)
        return Gpu(
            name=decode_nvml_text(self._library.nvmlDeviceGetName(handle)),
            memory_bytes=memory,
            driver=driver,
            clock_mhz=clock,
            capability=capability,
        )

    def close(self) -> None:
        """Shut the library down."""
        self._library.nvmlShutdown()


def decode_nvml_text(value: str | bytes) -> str:
    """Decode the bytes that older libraries return."""
    if isinstance(value, bytes):
        return value.decode()
    return value
