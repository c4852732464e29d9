"""Memory format in which convolutions are trained: channels-last, which GPUs and AVX-512 compute fastest; contiguous NCHW on processors with AVX2 alone.

Without AVX-512, oneDNN computes the backward pass of a 3x3 convolution in channels-last at a third of its rate in NCHW: a training step and
a prediction of SSD at 1,200 px took 107 s of one core (AMD EPYC, Zen 3, fp32, n = 1), and 63 s in NCHW; at 64 px the two differ by a few percent.
"""

from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)

CONTIGUOUS = frozenset({"AVX2"})
"""Processors, as PyTorch names them, for which NCHW was measured to be faster; others keep what most kernels are written for."""


def of_training(device: torch.device) -> torch.memory_format:
    """Return the memory format of pictures and weights on a device."""
    slow = device.type == "cpu" and torch.backends.cpu.get_cpu_capability() in CONTIGUOUS
    return torch.contiguous_format if slow else torch.channels_last


def placed(network: M, device: torch.device) -> M:
    """Move a network to its device, its convolutions' weights in that format."""
    return network.to(device, memory_format=of_training(device))  # type: ignore[call-overload,no-any-return]  # not in the stubs


def arranged(picture_NCHW: torch.Tensor) -> torch.Tensor:
    """Arrange pictures in the format of their device, which the activations of all layers then follow."""
    return picture_NCHW.contiguous(memory_format=of_training(picture_NCHW.device))
