"""Tiny networks like Mask R-CNN's for `podium doctor`: convolutions, batch-norm, pooled regions, a
linear box head, an upsampling mask head.
"""

from typing import cast

import torch
from torch import nn

from workloads.common.detection.ops import torchvision
from workloads.common.dtype_trial import (
    TRIAL_CHANNELS,
    TRIAL_PICTURE_NCHW,
    TorchPrecisionTrial,
    TrialStem,
    describe_trial_network,
    generate_trial_pictures,
)
from workloads.maskrcnn import model

TRIAL_POOLING_BINS = 2
TRIAL_STEM_STRIDE = 4
"""Ratio of image size to map size."""
MASKRCNN_TRIAL_CLASSES = 3


class MaskRCNNTrialHeads(nn.Module):
    """Maps pooled regions to class scores and masks."""

    def __init__(self) -> None:
        super().__init__()
        self.box = nn.Sequential(
            nn.Flatten(),
            nn.Linear(TRIAL_CHANNELS * TRIAL_POOLING_BINS**2, TRIAL_CHANNELS),
            nn.ReLU(),
            nn.Linear(TRIAL_CHANNELS, MASKRCNN_TRIAL_CLASSES),
        )
        self.mask = nn.Sequential(
            nn.ConvTranspose2d(TRIAL_CHANNELS, TRIAL_CHANNELS, 2, stride=2),
            nn.ReLU(),
            nn.Conv2d(TRIAL_CHANNELS, MASKRCNN_TRIAL_CLASSES, 1),
        )

    def forward(self, pooled_KCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Run both heads."""
        return self.box(pooled_KCHW), self.mask(pooled_KCHW)


def pool_whole_pictures(map_NCHW: torch.Tensor) -> torch.Tensor:
    """Pool one region per image, as large as the image."""
    regions = [
        torch.tensor([[0.0, 0.0, *TRIAL_PICTURE_NCHW[:1:-1]]], device=map_NCHW.device)
        for _ in range(len(map_NCHW))
    ]
    return cast(
        torch.Tensor,
        torchvision.ops.roi_align(
            map_NCHW,
            regions,
            TRIAL_POOLING_BINS,
            spatial_scale=1 / TRIAL_STEM_STRIDE,
            sampling_ratio=2,
        ),
    )


def build_maskrcnn_trial(device: str) -> TorchPrecisionTrial:
    """Return the loss of a batch, and the networks on both sides of the pooling."""

    def compute_trial_loss() -> torch.Tensor:
        stem, heads = TrialStem().to(device), MaskRCNNTrialHeads().to(device)
        score_KL, mask_KLMM = heads(pool_whole_pictures(stem(generate_trial_pictures(device))))
        total: torch.Tensor = (
            score_KL.float().logsumexp(dim=-1).sum()
            + nn.functional.softplus(mask_KLMM.float()).sum()
        )
        return total

    regions = torch.rand(2, TRIAL_CHANNELS, TRIAL_POOLING_BINS, TRIAL_POOLING_BINS, device=device)
    return TorchPrecisionTrial(
        device,
        compute_trial_loss,
        lambda: [
            describe_trial_network(
                model.MASKRCNN_NAME, TrialStem(), (generate_trial_pictures(device),)
            ),
            describe_trial_network(
                f"{model.MASKRCNN_NAME}-heads", MaskRCNNTrialHeads(), (regions,), outputs=2
            ),
        ],
    )
