"""Collectives between ranks in training; no-ops for a single rank. The process group belongs to the
harness.
"""

from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

T = TypeVar("T")


def average_batch_norm_statistics(model: nn.Module, world_size: int) -> None:
    """Set every rank's batch-norm statistics to the mean over the ranks."""
    if world_size == 1:
        return
    statistics = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    flat = torch.cat([buffer.flatten() for buffer in statistics])
    dist.all_reduce(flat)
    parts = torch.split(flat / world_size, [buffer.numel() for buffer in statistics])
    for buffer, part in zip(statistics, parts, strict=True):
        buffer.copy_(part.view_as(buffer))


def sum_over_ranks(counts: torch.Tensor, world_size: int) -> torch.Tensor:
    """Sum a tensor over the ranks."""
    if world_size > 1:
        dist.all_reduce(counts)
    return counts


def gather_from_ranks(entries: list[T], world_size: int) -> list[T]:
    """Concatenate the ranks' lists of any picklable objects."""
    if world_size == 1:
        return entries
    lists: list[Any] = [None] * world_size
    dist.all_gather_object(lists, entries)
    return [entry for part in lists for entry in part]
