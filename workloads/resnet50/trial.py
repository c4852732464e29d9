"""A tiny network like ResNet-50 for `podium doctor`: convolutions, batch-norm, pooling, a linear
layer.
"""

import torch
from torch import nn

from workloads.common.dtype_trial import CHANNELS, Stem, TorchTrial, network, pictures
from workloads.resnet50 import model

CLASSES = 4


def classifier() -> nn.Module:
    """Build the network."""
    return nn.Sequential(
        Stem(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, CLASSES)
    )


def trial(device: str) -> TorchTrial:
    """Return the loss of a batch, and the network."""

    def loss() -> torch.Tensor:
        logit_NK = classifier().to(device)(pictures(device))
        return nn.functional.cross_entropy(
            logit_NK, torch.zeros(len(logit_NK), dtype=torch.long, device=device)
        )

    return TorchTrial(
        device, loss, lambda: [network(model.NAME, classifier(), (pictures(device),))]
    )
