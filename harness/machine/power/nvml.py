"""NVIDIA GPUs through their management library: the energy counter if there is one, else
instantaneous power, else average power, and which.

On a superchip, a GPU with its CPU and memory in one module, the module's power is a channel beside
the GPU's, which it contains.

Sources: nvml.h, NVML_POWER_SCOPE_MODULE (GH200 and later), nvmlDeviceGetTotalEnergyConsumption
(Volta and later, mJ since the driver was loaded), NVML_FI_DEV_POWER_INSTANT and
nvmlDeviceGetPowerUsage (mW; on Ampere and later, except GA100, the mean of one second). On A100 and
H100 the sensor samples a quarter of the time: arXiv:2312.02741.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from suite.power import Channel, Grade, PowerReading, Quantity

PER_MILLI: Final = 1000
"""uJ per mJ, uW per mW."""
W_PER_MW: Final = 1e-3


@dataclass(frozen=True, slots=True)
class NvmlCall:
    """A way to read a GPU."""

    name: str
    quantity: Quantity
    grade: Grade
    read_milli: Callable[[Any, Any], int]
    """(library, handle) -> mJ or mW."""


def read_instant_power_mw(library: Any, handle: Any) -> int:
    """Read the instantaneous power, in mW; NVMLError if the GPU does not report it."""
    return read_nvml_field(library, handle, library.NVML_FI_DEV_POWER_INSTANT)


def read_module_power_mw(library: Any, handle: Any) -> int:
    """Read the instantaneous power of a GPU's module, in mW; NVMLError if it has none that
    reports.
    """
    return read_nvml_field(
        library, handle, (library.NVML_FI_DEV_POWER_INSTANT, library.NVML_POWER_SCOPE_MODULE)
    )


def read_nvml_field(library: Any, handle: Any, which: Any) -> int:
    """Read a field, with its scope if that is not the GPU; NVMLError if the GPU does not report
    it.
    """
    (field,) = library.nvmlDeviceGetFieldValues(handle, [which])
    if field.nvmlReturn:
        raise library.NVMLError(field.nvmlReturn)
    return int(field.value.uiVal)


GPU_CALLS: Final = (
    NvmlCall(
        "nvmlDeviceGetTotalEnergyConsumption",
        Quantity.ENERGY,
        Grade.COUNTER,
        lambda nvml, handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle),
    ),
    NvmlCall("NVML_FI_DEV_POWER_INSTANT", Quantity.POWER, Grade.SENSOR, read_instant_power_mw),
    NvmlCall(
        "nvmlDeviceGetPowerUsage",
        Quantity.POWER,
        Grade.SENSOR,
        lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle),
    ),
)
"""Best first."""
SUPERCHIP_MODEL: Final = re.compile(r"\bG[HB]\d+")
"""Models in a module with a CPU: GH200, GB200. A driver that does not know scopes would give
others' own power as their module's.
"""
MODULE_CALL: Final = NvmlCall(
    "NVML_FI_DEV_POWER_INSTANT, NVML_POWER_SCOPE_MODULE",
    Quantity.POWER,
    Grade.SENSOR,
    read_module_power_mw,
)


class Nvml:
    """The GPUs."""

    name: ClassVar[str] = "nvml"

    def __init__(self, library: Any = None) -> None:
        """`library`: a test double of pynvml."""
        self.library, self.opened = library, False
        self.ways: dict[str, tuple[NvmlCall, Any]] = {}

    def probe(self, root: Path) -> Sequence[Channel] | str:
        """Find the GPUs that answer; the root is ignored, since no files are read."""
        if self.library is None:
            try:
                import pynvml
            except ImportError:
                return "the package nvidia-ml-py is not installed"
            self.library = pynvml
        try:
            self.library.nvmlInit()
            self.opened = True
            count = self.library.nvmlDeviceGetCount()
        except self.library.NVMLError as error:
            return f"no NVIDIA GPU that the driver knows: {error}"
        found = [channel for index in range(count) for channel in self.find_channels(index)]
        return found or (
            f"NVML answers NotSupported for each of {count} GPUs, as on Tegra and in MIG mode;"
            " a Jetson has rails instead"
        )

    def find_channels(self, index: int) -> Iterator[Channel]:
        """Yield a GPU's channel, with the first call that gives a valid reading, and its module's
        if there is one.
        """
        try:
            handle = self.library.nvmlDeviceGetHandleByIndex(index)
        except self.library.NVMLError:
            return
        for call in GPU_CALLS:
            if not self.try_call(call, handle):
                continue
            facts = self.describe_gpu(call, handle)
            yield self.build_channel(call, handle, f"gpu{index}", ("psys", f"module{index}"), facts)
            break
        else:
            return
        if SUPERCHIP_MODEL.search(str(facts.get("model"))) and self.try_call(MODULE_CALL, handle):
            yield self.build_channel(
                MODULE_CALL, handle, f"module{index}", ("psys",), {"call": MODULE_CALL.name}
            )

    def build_channel(
        self,
        call: NvmlCall,
        handle: Any,
        scope: str,
        within: tuple[str, ...],
        facts: Mapping[str, Any],
    ) -> Channel:
        """Make the channel of a part, and note how it is read."""
        name = f"{self.name}:{scope}"
        self.ways[name] = (call, handle)
        return Channel(
            name=name,
            source=self.name,
            grade=call.grade,
            scope=scope,
            within=within,
            quantity=call.quantity,
            facts=facts,
        )

    def try_call(self, call: NvmlCall, handle: Any) -> int | None:
        """Read once, in milli units; None if the GPU does not report the value, or reports a power
        or counter of 0.
        """
        try:
            return call.read_milli(self.library, handle) or None
        except (self.library.NVMLError, AttributeError):
            return None

    def describe_gpu(self, call: NvmlCall, handle: Any) -> dict[str, Any]:
        """Return the facts of a GPU's readings."""
        found: dict[str, Any] = {
            "call": call.name,
            "model": self.query_library(self.library.nvmlDeviceGetName, handle),
        }
        limit = self.query_library(self.library.nvmlDeviceGetEnforcedPowerLimit, handle)
        if isinstance(limit, int):
            found["limit_w"] = limit * W_PER_MW
        return {
            key: value.decode() if isinstance(value, bytes) else value
            for key, value in found.items()
            if value is not None
        }

    def query_library(self, function: Callable[..., Any], handle: Any) -> Any:
        """Call the library; None if the GPU does not report the value."""
        try:
            return function(handle)
        except self.library.NVMLError:
            return None

    def read(self, channel: Channel) -> PowerReading:
        """Read a GPU; OSError if it stops reporting."""
        call, handle = self.ways[channel.name]
        start = time.monotonic_ns()
        try:
            value = call.read_milli(self.library, handle) * PER_MILLI
        except self.library.NVMLError as error:
            raise OSError(f"{channel.name}: {error}") from error
        return PowerReading(t_ns=(start + time.monotonic_ns()) // 2, value=value)

    def close(self) -> None:
        """Shut the library down."""
        if self.opened:
            self.library.nvmlShutdown()
            self.opened = False
