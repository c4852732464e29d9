"""Mixed precision: the autocast and loss scaling that a precision needs."""

from typing import Final

import torch

from suite.engine import Precision
from suite.errors import RequestError

AUTOCAST_DTYPES: Final = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
TRAINABLE_PRECISIONS: Final = (Precision.FP32, Precision.TF32, Precision.BF16, Precision.FP16)


def build_autocast(device: str, precision: Precision, *, keep_casts: bool = True) -> torch.autocast:
    """Return the autocast context of a forward pass; it keeps the converted weights until its end,
    unless a sharded model has to release them layer by layer.
    """
    return torch.autocast(
        torch.device(device).type,
        dtype=AUTOCAST_DTYPES.get(precision, torch.bfloat16),
        enabled=precision in AUTOCAST_DTYPES,
        cache_enabled=keep_casts,
    )


def build_loss_scaler(device: str, precision: Precision) -> torch.amp.GradScaler:
    """Return the loss scaler: only fp16 needs one, since its gradients underflow otherwise."""
    return torch.amp.GradScaler(torch.device(device).type, enabled=precision is Precision.FP16)


def prepare_training_precision(device: str, precision: Precision) -> None:
    """Reject precisions without training support, and TF32 without hardware for it; keep fp32 in
    true fp32, for which cuDNN would use TF32 by default.
    """
    if precision not in TRAINABLE_PRECISIONS:
        raise RequestError(
            f"precision {precision}: training supports {', '.join(TRAINABLE_PRECISIONS)}"
        )
    if precision is Precision.TF32 and torch.device(device).type != "cuda":
        raise RequestError("precision tf32: only NVIDIA GPUs support it")
    torch.backends.cudnn.allow_tf32 = precision is Precision.TF32
    torch.backends.cuda.matmul.allow_tf32 = precision is Precision.TF32
