"""The network and its exported weights."""

import json
from pathlib import Path

import pytest
import torch

from suite.errors import RequestError
from workloads.common import weights
from workloads.resnet50 import model
from workloads.resnet50.model import ResNet50Description

THREE = ResNet50Description(workload="resnet50", classes=("a", "b", "c"), picture_size=32)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    torch.manual_seed(0)
    weights.write_exported_weights(
        model.build_resnet50(3).to(memory_format=torch.channels_last), THREE, folder
    )
    return folder


@pytest.mark.slow
def test_it_is_v1_5() -> None:
    """The stride lies in the 3x3 convolution; v1 has it in the 1x1 before and is faster and
    worse.
    """
    with weights.SkippedInitialisation():
        block = model.build_resnet50(3).layer3[0]
    assert block.conv1.stride == (1, 1)
    assert block.conv2.stride == (2, 2)


def test_it_has_its_full_width() -> None:
    """25,557,032 parameters with ImageNet's classes (torchvision's table of models): nothing is
    narrowed.
    """
    with weights.SkippedInitialisation():
        network = model.build_resnet50(1000)
    assert sum(p.numel() for p in network.parameters()) == 25_557_032


@pytest.mark.slow
def test_zero_init_starts_the_branches_at_nothing() -> None:
    """The last batch-norm of each branch, and none else."""
    network = model.build_resnet50(3, zero_init=True)
    assert set(network.layer1[0].bn3.weight.tolist()) == {0.0}
    assert set(network.layer1[0].bn2.weight.tolist()) == {1.0}
    assert set(model.build_resnet50(3).layer1[0].bn3.weight.tolist()) == {1.0}


@pytest.mark.slow
def test_the_reference_s_start() -> None:
    """T, image_classification, resnet_model.py: normals cut at two deviations of variance 1 /
    fan-in; classifier 0.01; scales 1, shifts 0.

    Cut at two, a normal has a kurtosis of 2.37 (whole: 3; uniform: 1.8), and its largest value is 2
    / 0.8796 of its deviation.
    """
    torch.manual_seed(1)
    network = model.build_resnet50(1000)
    model.init_resnet50_as_reference(network)
    convolutions = [
        layer.weight for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)
    ]
    assert len(convolutions) == 53
    for weight in convolutions:
        scaled = weight.detach().double() * weight[0].numel() ** 0.5
        error = 5 * scaled.numel() ** -0.5
        assert abs(float(scaled.mean())) < error and float(scaled.var()) == pytest.approx(
            1.0, abs=2 * error
        )
        assert float(scaled.square().square().mean()) == pytest.approx(2.366, abs=4 * error)
        assert 0.97 * 2 / 0.8796 < float(scaled.abs().max()) <= 2 / 0.8796 + 1e-3
    classifier = network.fc.weight.detach().double()
    assert (
        float(classifier.std()) == pytest.approx(0.01, rel=0.01)
        and abs(float(classifier.mean())) < 1e-4
    )
    assert (
        float(((classifier / 0.01) ** 4).mean()) == pytest.approx(3.0, rel=0.02)
        and not network.fc.bias.any()
    )
    norms = [layer for layer in network.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    assert len(norms) == 53 and all(
        set(norm.weight.tolist()) == {1.0} and not norm.bias.any() for norm in norms
    )


def test_groups() -> None:
    """All parameters once; biases and batch-norm apart from what is decayed."""
    with weights.SkippedInitialisation():
        network = model.build_resnet50(3)
    decayed, plain = model.split_resnet50_parameters(network)
    assert len(decayed) + len(plain) == len(list(network.parameters()))
    assert len(decayed) == 54  # 53 convolutions and the classifier
    assert any(parameter is network.fc.bias for parameter in plain)


@pytest.mark.slow
def test_weights_come_back(exported: Path) -> None:
    """Exactly, whatever memory format they were trained in, and ready to evaluate."""
    torch.manual_seed(0)
    original = model.build_resnet50(3)
    network, description = model.load_resnet50_checkpoint(exported)
    assert description == THREE
    assert not network.training
    for name, tensor in original.state_dict().items():
        assert torch.equal(tensor, network.state_dict()[name]), name


@pytest.mark.slow
def test_names_are_canonical(exported: Path) -> None:
    """Anybody's ResNet-50 loads them: no wrapper's prefix."""
    from safetensors.torch import load_file

    with weights.SkippedInitialisation():
        network = model.build_resnet50(3)
    assert set(load_file(exported / weights.WEIGHTS_FILE)) == set(network.state_dict())


def damaged(exported: Path, folder: Path, **changes: object) -> Path:
    """Copy a checkpoint and change its description."""
    (folder / weights.WEIGHTS_FILE).write_bytes((exported / weights.WEIGHTS_FILE).read_bytes())
    table = json.loads((exported / weights.DESCRIPTION_FILE).read_text()) | changes
    (folder / weights.DESCRIPTION_FILE).write_text(json.dumps(table))
    return folder


@pytest.mark.slow
def test_another_workload_s_checkpoint_is_refused(exported: Path, tmp_path: Path) -> None:
    """Named for what it is, instead of a list of missing keys."""
    with pytest.raises(RequestError, match="workload is ssd, not resnet50"):
        model.load_resnet50_checkpoint(damaged(exported, tmp_path, workload="ssd"))


@pytest.mark.slow
def test_other_classes_do_not_fit(exported: Path, tmp_path: Path) -> None:
    """Description and weights must belong together."""
    with pytest.raises(RequestError, match="does not fit"):
        model.load_resnet50_checkpoint(damaged(exported, tmp_path, classes=["a", "b"]))


def test_a_folder_without_description_is_refused(tmp_path: Path) -> None:
    """An empty or foreign folder."""
    with pytest.raises(RequestError, match=r"model\.json"):
        model.load_resnet50_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"workload": "resnet50", "classes": 3, "picture_size": 32}']
)
def test_a_damaged_description_is_refused(tmp_path: Path, text: str) -> None:
    """One sentence, no traceback."""
    (tmp_path / weights.DESCRIPTION_FILE).write_text(text)
    with pytest.raises(RequestError, match=r"model\.json"):
        model.read_resnet50_description(tmp_path)


@pytest.mark.slow
def test_cut_weights_are_refused(exported: Path, tmp_path: Path) -> None:
    """A copy that broke off."""
    folder = damaged(exported, tmp_path)
    whole = (folder / weights.WEIGHTS_FILE).read_bytes()
    (folder / weights.WEIGHTS_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RequestError, match="does not fit"):
        model.load_resnet50_checkpoint(folder)
