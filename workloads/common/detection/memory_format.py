"""The memory format in which a detector trains on images of a given size."""

from typing import Final

import torch

from suite.terms import Precision
from suite.workload import Run

LARGE_PICTURE_PX: Final = 600
"""House rule: between SSD's 300 px, where both formats take the same time, and Mask R-CNN's 800
px.
"""
AVX2_CAPABILITY: Final = "AVX2"
"""PyTorch's name for x86 processors with AVX2 and without AVX-512."""


def choose_training_memory_format(run: Run, side_px: int) -> torch.memory_format:
    """Return the format of weights and of images in training steps; `side_px` is the shorter
    side. Evaluation has channels-last images, as serving.

    Contiguous for large images in fp32 on a processor with AVX2 alone, where oneDNN is slow at
    weights' gradients in channels-last; otherwise channels-last. One core of an AMD EPYC (Zen 3),
    fp32, SSD's backward pass: one image of 1,200 px 45.0 s in channels-last (n = 1) and 15.2 to
    15.6 s contiguous (n = 2); two of 300 px 2.3 to 3.0 s and 2.3 to 2.7 s (n = 6). Other processors
    were not measured; in bf16 contiguous is the slow one. Several ranks keep channels-last: they
    have to agree, and may be on different processors.
    """
    alone = run.device == "cpu" and run.world_size == 1
    slow = (
        alone
        and run.precision is Precision.FP32
        and torch.backends.cpu.get_cpu_capability() == AVX2_CAPABILITY
    )
    return torch.contiguous_format if slow and side_px > LARGE_PICTURE_PX else torch.channels_last
