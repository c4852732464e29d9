"""Which cores are near a GPU: those of the NUMA node that its bus belongs to, as NVIDIA's
management library (NVML) tells them.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from harness.machine.telemetry.gpus import open_gpus

WORD_BITS: Final = 64
"""nvml.h, nvmlDeviceGetCpuAffinity: the mask is an array of unsigned longs, with core 0 in the
lowest bit of the first.
"""


def cores_near(ordinals: Sequence[int]) -> dict[int, frozenset[int]]:
    """Return the cores near each GPU, by its number among the visible ones; without those that NVML
    does not tell of.
    """
    opened = open_gpus(ordinals)
    if opened is None:
        return {}
    words = -(-os.sysconf("SC_NPROCESSORS_CONF") // WORD_BITS)
    with closing(opened):
        masks = {
            number: opened.ask(opened.library.nvmlDeviceGetCpuAffinity, handle, words)
            for number, handle in opened.handles.items()
        }
    return {number: cores_in(mask) for number, mask in masks.items() if mask is not None}


def cores_in(mask: Sequence[int]) -> frozenset[int]:
    """Return the cores whose bits are set."""
    return frozenset(
        WORD_BITS * place + bit
        for place, word in enumerate(mask)
        for bit in range(WORD_BITS)
        if word >> bit & 1
    )
