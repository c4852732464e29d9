"""The memory format in which a detector trains on pictures of a given size."""

from typing import Final

import torch

LARGE_PX: Final = 600
"""House rule: between SSD's 300 px, where both formats take the same time, and Mask R-CNN's 800 px."""
WITHOUT_AVX512: Final = "AVX2"
"""What PyTorch calls a processor that has no more."""


def for_training(device: torch.device, side_px: int) -> torch.memory_format:
    """Return the memory format of weights and pictures: channels-last, except for large pictures on x86 processors without AVX-512.

    There oneDNN takes four times as long for a weight's gradient in channels-last. Measured on one core of an AMD EPYC (Zen 3),
    fp32: SSD's backward pass, one picture of 1,200 px: 45.0 s in channels-last, 15.6 s in contiguous memory; of 300 px: 2.6 and 2.5 s.
    """
    slow = device.type == "cpu" and torch.backends.cpu.get_cpu_capability() == WITHOUT_AVX512
    return torch.contiguous_format if slow and side_px > LARGE_PX else torch.channels_last
