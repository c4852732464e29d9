"""A small residual network."""

from collections.abc import Sequence

import torch
from torch import nn

# Legend: N pictures, C channels, H height, W width, K classes.


class Block(nn.Module):
    """Two convolutions beside a shortcut, at half the size."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride=2, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, width, 1, stride=2)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        """Compute."""
        y_NCHW = self.second(nn.functional.relu(self.first(x_NCHW)))
        return nn.functional.relu(y_NCHW + self.shortcut(x_NCHW))


class Classifier(nn.Module):
    """Blocks, the mean over all places, and a linear layer."""

    def __init__(self, channels: int, width: int, outputs: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(channels, width), Block(width, width))
        self.head = nn.Linear(width, outputs)

    def forward(self, picture_NCHW: torch.Tensor) -> torch.Tensor:
        """Return the logits, N K."""
        return self.head(self.blocks(picture_NCHW).mean(dim=(2, 3)))


def build(width: int, sizes: Sequence[int], outputs: int) -> nn.Module:
    """Build the network: pictures in, one logit per class out."""
    channels, _, _ = sizes
    return Classifier(channels, width, outputs)
