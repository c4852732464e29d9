"""A network with one hidden layer."""

from collections.abc import Sequence

from torch import nn


def build(width: int, sizes: Sequence[int], outputs: int) -> nn.Module:
    """Build the network: the numbers of a sample in, one logit per class out."""
    (features,) = sizes
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, outputs))
