"""How many sequences the free memory holds: asked before a clock starts, since a key/value cache
that does not fit would end a run in its midst.
"""

from dataclasses import dataclass
from typing import Final

import torch

from suite.errors import RequestError
from suite.units import MIB
from workloads.llama.model import LlamaNetwork
from workloads.llama.shape import LlamaShape

SPARE_SHARE: Final = 0.1
"""Share of the free memory that is left for states between layers, and for other programs."""
KEYS_AND_VALUES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRoom:
    """What a generator needs, and what there is; all in bytes."""

    slot: int
    """Keys and values of one sequence of the greatest length."""
    weights: int
    """The generator's copy of the weights."""
    free: int
    """Memory of the device that nothing uses."""

    def count_slots(self, wanted: int) -> int:
        """Return how many slots fit, at most as many as are wanted; RequestError if none does."""
        room = int((1 - SPARE_SHARE) * self.free) - self.weights
        if room < self.slot:
            raise RequestError(
                f"llama: its weights take {self.weights / MIB:,.0f} MiB and one sequence"
                f" {self.slot / MIB:,.1f} MiB of memory, and only {self.free / MIB:,.0f} MiB are"
                " free on the device"
            )
        return min(wanted, room // self.slot)


def measure_cache_room(network: LlamaNetwork, longest: int, dtype: torch.dtype) -> CacheRoom:
    """Measure what a generator with sequences of at most `longest` tokens needs."""
    parameters = sum(weight.numel() for weight in network.parameters())
    return CacheRoom(
        slot=compute_slot_bytes(network.shape, longest, dtype),
        weights=parameters * dtype.itemsize,
        free=measure_free_bytes(network.lm_head.weight.device),
    )


def compute_slot_bytes(shape: LlamaShape, longest: int, dtype: torch.dtype) -> int:
    """Return the bytes of one sequence in the cache."""
    numbers = KEYS_AND_VALUES * shape.key_value_heads * shape.head_width
    return shape.layers * longest * numbers * dtype.itemsize


def measure_free_bytes(device: torch.device) -> int:
    """Return the bytes of a device's memory that nothing uses, this process's own pool included."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        pooled = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + pooled
    import psutil  # late: only a process that serves needs it

    available: int = psutil.virtual_memory().available
    return available
