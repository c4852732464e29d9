"""Networks that are built to be filled."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from suite.errors import RequestError
from workloads.common.weights import WEIGHTS_FILE, SkippedInitialisation, build_exported_network


class Small(nn.Module):
    """Layers that draw their weights, or set them, and a buffer that no file holds."""

    def __init__(self, width: int = 2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, width), nn.BatchNorm2d(width), nn.Embedding(4, width), nn.LSTM(3, width)
        )
        nn.init.normal_(self.layers[0].weight, std=2.0)
        nn.init.kaiming_uniform_(self.layers[0].weight)
        self.places: torch.Tensor
        self.register_buffer("places", torch.arange(width), persistent=False)


@pytest.mark.slow
def test_a_filled_network_has_the_file_s_weights_and_no_number_is_drawn(tmp_path: Path) -> None:
    """The global generator stays where it was."""
    saved = Small().state_dict()
    save_file(saved, tmp_path / WEIGHTS_FILE)
    before = torch.get_rng_state()
    network = build_exported_network(Small, tmp_path, "small")
    assert torch.equal(torch.get_rng_state(), before) and not network.training
    assert all(
        torch.equal(tensor, saved[name]) for name, tensor in network.state_dict().items()
    ) and network.places.tolist() == [0, 1]
    with pytest.raises(RequestError, match="does not fit small"):
        build_exported_network(lambda: Small(3), tmp_path, "small")
    Small()
    assert not torch.equal(torch.get_rng_state(), before)


def test_what_is_set_and_not_drawn_is_there() -> None:
    with SkippedInitialisation():
        made = Small().state_dict()
    assert made["layers.1.weight"].tolist() == [1.0, 1.0] and made[
        "layers.1.running_mean"
    ].tolist() == [0.0, 0.0]
