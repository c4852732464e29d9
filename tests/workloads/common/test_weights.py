"""Networks that are built to be filled."""

import pytest
import torch
from torch import nn

from workloads.common.weights import Undrawn


def build() -> nn.Module:
    layer = nn.Linear(3, 2)
    nn.init.normal_(layer.weight, std=2.0)
    nn.init.kaiming_uniform_(layer.weight)
    return nn.Sequential(layer, nn.BatchNorm2d(2), nn.Embedding(4, 2), nn.LSTM(3, 2))


@pytest.mark.slow
def test_no_number_is_drawn_and_every_tensor_is_there() -> None:
    """The global generator stays where it was, and what a strict load fills is all there."""
    before, filled = build().state_dict(), torch.get_rng_state()
    with Undrawn():
        network = build()
    assert torch.equal(torch.get_rng_state(), filled)
    made = network.state_dict()
    assert {name: tensor.shape for name, tensor in made.items()} == {name: tensor.shape for name, tensor in before.items()}
    assert all(torch.equal(made[name], before[name]) for name in before if name.startswith("1.")), "what is not drawn is set: batch normalisation"
    build()
    assert not torch.equal(torch.get_rng_state(), filled)
