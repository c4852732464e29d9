"""How ranks average their gradients: DistributedDataParallel with the run's format and bucket size.
The process group belongs to the harness.
"""

from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import Any, Final

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    bf16_compress_hook,
    fp16_compress_hook,
)
from torch.nn.parallel import DistributedDataParallel

from suite.errors import RequestError
from suite.workload import Run
from workloads.common.setting_values import positive, text

FORMAT: Final = "train.gradient_format"
BUCKET: Final = "train.bucket_mib"
HOOKS: Final = {"fp32": None, "fp16": fp16_compress_hook, "bf16": bf16_compress_hook}
"""Format in which gradients travel and are added up; weights and optimizer keep theirs."""


def wrapped(model: nn.Module, run: Run) -> nn.Module:
    """Wrap the model so that gradients are averaged over the ranks; buffers stay each rank's own
    until they are averaged.

    RequestError for bf16 without GPUs: gloo does not add it up.
    """
    told = text(run.settings, FORMAT) if FORMAT in run.settings else "fp32"
    device = torch.device(run.device)
    if told == "bf16" and device.type != "cuda":
        raise RequestError(f"{FORMAT}=bf16 needs GPUs: ranks on CPUs exchange fp32 or fp16")
    if run.world_size == 1:
        return model
    # torch 2.13 renamed the option, and warns about the old name
    own_buffers = (
        "forward_sync_buffers"
        if "forward_sync_buffers" in signature(DistributedDataParallel).parameters
        else "broadcast_buffers"
    )
    options: dict[str, Any] = {
        own_buffers: False,
        "bucket_cap_mb": positive(run.settings, BUCKET) if BUCKET in run.settings else None,
    }
    ids = [device] if device.type == "cuda" else None
    network = DistributedDataParallel(
        model, device_ids=ids, gradient_as_bucket_view=True, **options
    )
    if hook := HOOKS[told]:
        network.register_comm_hook(None, hook)
    return network


def synced(model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Average gradients only after the last micro-batch of a step."""
    if isinstance(model, DistributedDataParallel) and not last:
        return model.no_sync()
    return nullcontext()
