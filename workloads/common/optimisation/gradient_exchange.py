"""Averages gradients over the ranks: DistributedDataParallel with the run's gradient format and
bucket size. The process group belongs to the harness.
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
from suite.rounds.settings import GRADIENT_FORMAT_SETTING
from suite.workload import Run
from workloads.common.setting_values import require_positive_setting, require_text_setting

GRADIENT_BUCKET_SETTING: Final = "train.bucket_mib"
GRADIENT_COMPRESSION_HOOKS: Final = {
    "fp32": None,
    "fp16": fp16_compress_hook,
    "bf16": bf16_compress_hook,
}
"""Precision in which gradients are exchanged and summed; weights and optimizer state keep
theirs.
"""


def wrap_for_gradient_exchange(model: nn.Module, run: Run) -> nn.Module:
    """Wrap the model so that gradients are averaged over the ranks; buffers stay each rank's own
    until they are averaged.

    RequestError for bf16 without GPUs: gloo cannot sum it.
    """
    gradient_format = "fp32"
    if GRADIENT_FORMAT_SETTING in run.settings:
        gradient_format = require_text_setting(run.settings, GRADIENT_FORMAT_SETTING)
    device = torch.device(run.device)
    if gradient_format == "bf16" and device.type != "cuda":
        raise RequestError(
            f"{GRADIENT_FORMAT_SETTING}=bf16 needs GPUs: ranks on CPUs exchange fp32 or fp16"
        )
    if run.world_size == 1:
        return model
    # torch 2.13 renamed the option and warns about the old name
    own_buffers = "broadcast_buffers"
    if "forward_sync_buffers" in signature(DistributedDataParallel).parameters:
        own_buffers = "forward_sync_buffers"
    bucket_mb = None
    if GRADIENT_BUCKET_SETTING in run.settings:
        bucket_mb = require_positive_setting(run.settings, GRADIENT_BUCKET_SETTING)
    options: dict[str, Any] = {own_buffers: False, "bucket_cap_mb": bucket_mb}
    ids = [device] if device.type == "cuda" else None
    network = DistributedDataParallel(
        model, device_ids=ids, gradient_as_bucket_view=True, **options
    )
    if hook := GRADIENT_COMPRESSION_HOOKS[gradient_format]:
        network.register_comm_hook(None, hook)
    return network


def sync_gradients_if_last(model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Average gradients only after the last micro-batch of a step."""
    if isinstance(model, DistributedDataParallel) and not last:
        return model.no_sync()
    return nullcontext()
