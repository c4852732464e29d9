"""Which cores are near a GPU: those of the NUMA node that its bus belongs to, as NVIDIA's
management library (NVML) tells them.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from harness.machine.telemetry.gpus import open_gpus

MASK_WORD_BITS: Final = 64
"""nvml.h, nvmlDeviceGetCpuAffinity: the mask is an array of unsigned longs, with core 0 in the
lowest bit of the first.
"""


def find_cores_near_gpus(ordinals: Sequence[int]) -> dict[int, frozenset[int]]:
    """Return the cores near each GPU, by its number among the visible ones; without those that NVML
    does not tell of.
    """
    opened = open_gpus(ordinals)
    if opened is None:
        return {}
    words = -(-os.sysconf("SC_NPROCESSORS_CONF") // MASK_WORD_BITS)
    with closing(opened):
        masks = {
            number: opened.query_library(opened.library.nvmlDeviceGetCpuAffinity, handle, words)
            for number, handle in opened.handles.items()
        }
    return {number: decode_core_mask(mask) for number, mask in masks.items() if mask is not None}


def decode_core_mask(mask: Sequence[int]) -> frozenset[int]:
    """Return the cores whose bits are set."""
    return frozenset(
        MASK_WORD_BITS * place + bit
        for place, word in enumerate(mask)
        for bit in range(MASK_WORD_BITS)
        if word >> bit & 1
    )
