"""The training loss: smooth L1 of the offsets, and cross-entropy with three negatives per positive.

Liu et al. 2016, arXiv:1512.02325, section 2.2; mlcommons/training, single_stage_detector/ssd,
base_model.py, Loss.
"""

from typing import Final

import torch
from torch.nn import functional

# Legend: N images of a batch, B default boxes, K classes, 0 is the background.
Tensor = torch.Tensor

NEGATIVES_PER_POSITIVE: Final = 3  # per positive; base_model.py, Loss.forward


def compute_ssd_losses(
    offset_NB4: Tensor, logit_NBK: Tensor, target_NB4: Tensor, label_NB: Tensor
) -> Tensor:
    """Return each image's loss divided by its positives; 0 for an image without positives,
    [N].
    """
    positive_NB = label_NB > 0
    positives_N = positive_NB.sum(dim=1)
    offset_loss_NB = functional.smooth_l1_loss(offset_NB4, target_NB4, reduction="none").sum(dim=2)
    class_loss_NB = functional.cross_entropy(logit_NBK.transpose(1, 2), label_NB, reduction="none")
    both_N = ((offset_loss_NB + class_loss_NB) * positive_NB).sum(dim=1) + sum_hardest_negatives(
        class_loss_NB, positive_NB
    )
    return torch.where(positives_N > 0, both_N / positives_N.clamp(min=1), 0.0)


def sum_hardest_negatives(class_loss_NB: Tensor, positive_NB: Tensor) -> Tensor:
    """Sum the largest losses of negatives, three times as many as there are positives, [N]."""
    negative_NB = class_loss_NB.masked_fill(positive_NB, 0.0).sort(dim=1, descending=True).values
    count_N = (NEGATIVES_PER_POSITIVE * positive_NB.sum(dim=1)).clamp(max=class_loss_NB.shape[1])
    rank_B = torch.arange(class_loss_NB.shape[1], device=class_loss_NB.device)
    return (negative_NB * (rank_B < count_N[:, None])).sum(dim=1)
