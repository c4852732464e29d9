"""Trades computation for memory: what a large intermediate tensor is made from is kept, and the
tensor is computed again in the backward pass. Values and gradients stay the same to the bit.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch.utils.checkpoint import checkpoint

from suite.units import MIB

# Legend: X rows (tokens of a batch), W width, V vocabulary.
LARGEST_KEPT_BYTES: Final = 256 * MIB
"""House rule: a larger tensor is computed again, and logits in chunks of this size. A device
computes as fast on so many rows as on more; smoke's batches take less, and lose no time.
"""
FP32_BYTES: Final = 4


def recompute_in_backward(
    compute: Callable[..., torch.Tensor], *inputs: torch.Tensor
) -> torch.Tensor:
    """Compute a tensor of which only the inputs are kept; `compute` draws no random numbers."""
    found: torch.Tensor = checkpoint(
        compute, *inputs, use_reentrant=False, preserve_rng_state=False
    )
    return found


def compute_losses_in_chunks(
    compute_loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    state_XW: torch.Tensor,
    label_X: torch.Tensor,
    vocabulary: int,
) -> list[torch.Tensor]:
    """Return the loss of each chunk of rows; the logits of no chunk outlive it, unless there is
    only one.

    `compute_loss`: states and labels of some rows -> their loss, through logits of `vocabulary`
    columns.
    """
    rows = max(1, LARGEST_KEPT_BYTES // (vocabulary * FP32_BYTES))
    if len(state_XW) <= rows:
        return [compute_loss(state_XW, label_X)]
    return [
        recompute_in_backward(compute_loss, *chunk)
        for chunk in zip(torch.split(state_XW, rows), torch.split(label_X, rows), strict=True)
    ]
