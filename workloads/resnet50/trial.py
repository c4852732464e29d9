"""A tiny network like ResNet-50 for `podium doctor`: convolutions, batch-norm, pooling, a linear
layer.
"""

import torch
from torch import nn

from workloads.common.dtype_trial import (
    TRIAL_CHANNELS,
    TorchPrecisionTrial,
    TrialStem,
    describe_trial_network,
    generate_trial_pictures,
)
from workloads.resnet50 import model

RESNET50_TRIAL_CLASSES = 4


def build_trial_classifier() -> nn.Module:
    return nn.Sequential(
        TrialStem(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(TRIAL_CHANNELS, RESNET50_TRIAL_CLASSES),
    )


def trial(device: str) -> TorchPrecisionTrial:
    """Return the loss of a batch, and the network."""

    def compute_trial_loss() -> torch.Tensor:
        logit_NK = build_trial_classifier().to(device)(generate_trial_pictures(device))
        return nn.functional.cross_entropy(
            logit_NK, torch.zeros(len(logit_NK), dtype=torch.long, device=device)
        )

    return TorchPrecisionTrial(
        device,
        compute_trial_loss,
        lambda: [
            describe_trial_network(
                model.RESNET50_NAME, build_trial_classifier(), (generate_trial_pictures(device),)
            )
        ],
    )
