"""Bare networks: torchvision's architectures, random weights by seed, and weights of a file."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.utils.flop_counter import FlopCounterMode

from extras.networks import classifiers
from suite import registry
from suite.errors import RequestError

DOCUMENTED = {
    "alexnet": (61_100_840, 0.71),
    "googlenet": (6_624_904, 1.50),
    "resnet50": (25_557_032, 4.09),
    "resnet101": (44_549_160, 7.80),
    "vgg19": (143_667_240, 19.63),
}
"""Parameters and multiply-adds (10^9) at 224 px: torchvision, "Table of all available
classification weights", columns Params and GFLOPS.
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "operations"), [(name, *numbers) for name, numbers in DOCUMENTED.items()]
)
def test_networks_are_those_that_torchvision_documents(
    name: str, parameters: int, operations: float
) -> None:
    """Auxiliary classifiers, another stride or missing layers would show in both numbers."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter, torch.no_grad():
        network = classifiers.build_classifier(name, 0, None)
        network(torch.zeros(1, 3, classifiers.CLASSIFIER_SIDE_PX, classifiers.CLASSIFIER_SIDE_PX))
    assert sum(each.numel() for each in network.parameters()) == parameters
    assert counter.get_total_flops() / 2e9 == pytest.approx(operations, abs=0.005)


def test_every_network_is_registered() -> None:
    """podium's own use the group that a third party has."""
    assert set(registry.map_entry_points(registry.NETWORK_GROUP)) >= set(DOCUMENTED)
    assert registry.load_bare_network("alexnet").framework == "torch"
    with pytest.raises(RequestError, match="unknown network 'alexnett'; did you mean 'alexnet'"):
        registry.load_bare_network("alexnett")


@pytest.mark.slow
def test_random_weights_and_noise_follow_from_their_seed() -> None:
    """A point that is measured again measures the same network on the same pictures, and nobody
    else's random numbers change.
    """
    before = torch.get_rng_state()
    first, second = (
        classifiers.build_classifier("alexnet", 0, None).state_dict()["features.0.weight"]
        for _ in range(2)
    )
    assert torch.equal(first, second) and torch.equal(before, torch.get_rng_state())
    assert not torch.equal(
        first, classifiers.build_classifier("alexnet", 1, None).state_dict()["features.0.weight"]
    )
    assert torch.equal(
        classifiers.generate_noise_picture(0, 3), classifiers.generate_noise_picture(0, 3)
    ) and not torch.equal(
        classifiers.generate_noise_picture(0, 3), classifiers.generate_noise_picture(0, 4)
    )


@pytest.mark.slow
def test_weights_of_a_file_are_loaded_or_refused(tmp_path: Path) -> None:
    """Another network's weights would be served as this one's."""
    made = classifiers.build_classifier("googlenet", 5, None)
    path = tmp_path / "w.safetensors"
    save_file(
        {**made.state_dict(), "aux1.conv.conv.weight": torch.zeros(1)}, path
    )  # of training alone
    loaded = classifiers.build_classifier("googlenet", 0, path)
    assert (
        loaded.transform_input and not made.transform_input
    )  # torchvision.models.googlenet, where weights are given
    assert all(
        torch.equal(value, loaded.state_dict()[name]) for name, value in made.state_dict().items()
    )
    with pytest.raises(RequestError, match="weights of a network other than alexnet: "):
        classifiers.build_classifier("alexnet", 0, path)
    path.write_bytes(b"garbage")
    with pytest.raises(RequestError, match=r"--weights .*w\.safetensors: "):
        classifiers.build_classifier("alexnet", 0, path)
