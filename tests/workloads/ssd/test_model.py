"""The network of the three configurations: torchvision's trunk, maps of the pinned sizes, start
weights by their hash.
"""

import hashlib
from pathlib import Path

import pytest
import torch

from suite.errors import RequestError
from workloads.common import weights
from workloads.common.detection.coco import CocoCategory
from workloads.common.detection.torchvision_import import torchvision
from workloads.ssd import model
from workloads.ssd.detector.default_boxes import (
    SSD_CONFIGURATIONS,
    SSDConfiguration,
    build_default_boxes,
)

ALL = list(SSD_CONFIGURATIONS.values())
DESCRIPTION = model.SSDDescription(
    workload="ssd",
    configuration="128",
    categories=(CocoCategory(id=1, name="a"), CocoCategory(id=4, name="b")),
)


@pytest.mark.parametrize("configuration", ALL, ids=lambda each: each.name)
def test_maps_have_the_pinned_sides(configuration: SSDConfiguration) -> None:
    """38 to 1 for 300 px and 50 to 3 for 1200: each head's map belongs to its default boxes. Shapes
    alone, without computing.
    """
    with torch.device("meta"):
        network = model.build_ssd(configuration.name, 81)
        side = configuration.picture_px
        found = network.trunk(torch.zeros(1, 3, side, side))
        sides = []
        for number, head in enumerate(network.places):
            found = network.extras[number - 1](found) if number else found
            sides.append(tuple(head(found).shape[2:]))
        offset, logit = network(torch.zeros(2, 3, side, side))
    assert sides == [(each, each) for each in configuration.sides]
    count = len(build_default_boxes(configuration))
    assert offset.shape == (2, count, 4) and logit.shape == (2, count, 81)


@pytest.mark.slow
def test_the_trunk_is_torchvision_s() -> None:
    """With its weights, the same answer as its own layers give, conv4 at stride 1."""
    torch.manual_seed(3)
    network, whole = model.build_ssd("128", 4).eval(), torchvision.models.resnet34().eval()
    network.trunk.load_state_dict(
        {
            name: tensor
            for name, tensor in whole.state_dict().items()
            if not name.startswith(("layer4", "fc"))
        }
    )
    whole.layer3[0].conv1.stride = whole.layer3[0].downsample[0].stride = (1, 1)
    picture = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        stem = whole.maxpool(whole.relu(whole.bn1(whole.conv1(picture))))
        assert torch.equal(network.trunk(picture), whole.layer3(whole.layer2(whole.layer1(stem))))
        assert network.trunk(picture).shape == (1, 256, 8, 8)


@pytest.mark.slow
def test_it_has_its_full_width() -> None:
    """8.2 million parameters in the trunk, as ResNet-34 has without its last stage: nothing is
    narrowed.
    """
    with weights.SkippedInitialisation():
        networks = [model.build_ssd(*each) for each in (("128", 4), ("300", 81), ("1200", 81))]
    assert sum(each.numel() for each in networks[0].trunk.parameters()) == 8_170_304
    assert sum(each.numel() for each in networks[1].parameters()) == sum(
        each.numel() for each in networks[2].parameters()
    )


def test_boxes_and_channels_are_in_one_order() -> None:
    """A head's channels are number by number, shape by shape, and the map row by row: as the
    default boxes are.
    """
    heads = torch.arange(2 * 3 * 2 * 2).reshape(
        1, 6, 2, 2
    )  # numbers 0 and 1 of three shapes on a map of 2 x 2
    found = model.split_map_by_box(heads, 2)
    assert found.shape == (1, 12, 2)
    assert (
        found[0, 0].tolist() == [0, 12]
        and found[0, 4].tolist() == [4, 16]
        and found[0, 11].tolist() == [11, 23]
    )


@pytest.mark.slow
def test_weights_come_back(tmp_path: Path) -> None:
    """Exactly, with the configuration that they are of."""
    network = model.build_ssd("128", 3)
    weights.write_exported_weights(network, DESCRIPTION, tmp_path)
    again, description = model.load_ssd_checkpoint(tmp_path)
    assert description == DESCRIPTION and not again.training
    assert all(
        torch.equal(tensor, again.state_dict()[name])
        for name, tensor in network.state_dict().items()
    )


def test_a_configuration_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """One sentence."""
    weights.write_exported_weights(
        torch.nn.Linear(1, 1),
        model.SSDDescription(workload="ssd", configuration="512", categories=()),
        tmp_path,
    )
    with pytest.raises(RequestError, match="unknown configuration 512"):
        model.load_ssd_checkpoint(tmp_path)


@pytest.mark.slow
def test_start_weights_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trunk has them, the rest does not; what the trunk lacks (the last stage) is left
    alone.
    """
    path = tmp_path / "resnet34.pth"
    torch.manual_seed(1)
    whole = torchvision.models.resnet34()
    torch.save(whole.state_dict(), path)
    monkeypatch.setattr(
        model, "RESNET34_SHA256_PREFIX", hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    )
    network = model.build_ssd("128", 4)
    model.load_resnet34_weights(network, path)
    assert torch.equal(network.trunk.conv1.weight, whole.conv1.weight)
    assert torch.equal(network.trunk.layer3[5].bn2.running_var, whole.layer3[5].bn2.running_var)


@pytest.mark.slow
def test_other_start_weights_are_refused(tmp_path: Path) -> None:
    """By their hash, before anything of them is read."""
    path = tmp_path / "resnet34.pth"
    path.write_bytes(b"something else")
    with weights.SkippedInitialisation():
        network = model.build_ssd("128", 4)
    with pytest.raises(RequestError, match="SHA-256 begins with .*, not with 333f7ec4"):
        model.load_resnet34_weights(network, path)
    with pytest.raises(RequestError, match="model.start_weights .*No such file"):
        model.load_resnet34_weights(network, tmp_path / "nowhere.pth")


@pytest.mark.parametrize("content", [{}, {"conv1.weight": torch.zeros(2, 2)}, [1, 2], None])
def test_start_weights_that_lack_a_layer_are_refused(
    content: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the hash is right: what is missing must not quietly stay random."""
    path = tmp_path / "resnet34.pth"
    torch.save(content, path) if content is not None else path.write_bytes(b"no pickle")
    monkeypatch.setattr(
        model, "RESNET34_SHA256_PREFIX", hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    )
    with weights.SkippedInitialisation():
        network = model.build_ssd("128", 4)
    with pytest.raises(RequestError, match="not weights of a ResNet-34"):
        model.load_resnet34_weights(network, path)


@pytest.mark.slow
def test_a_random_network_starts_small() -> None:
    """Without start weights every box has about the same to say, and a picture's brightness does
    not run through the trunk enlarged.
    """
    torch.manual_seed(5)
    plain, small = model.build_ssd("128", 4), model.build_ssd("128", 4)
    model.init_random_ssd(small)
    picture_NCHW = torch.rand(2, 3, 128, 128)
    with torch.no_grad():
        (_, loud), (offset, quiet) = plain(picture_NCHW), small(picture_NCHW)
        assert small.trunk(picture_NCHW).std() < 0.5 * plain.trunk(picture_NCHW).std()
    assert quiet.abs().max() < 1 < loud.abs().max() and offset.abs().max() < 1
