"""Start weights from the user's file: the right one, whole, and no program."""

import codecs
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from suite.errors import RequestError
from workloads.common.detection.torchvision_import import torchvision
from workloads.maskrcnn import start_weights

Blobs = Callable[[Any], dict[str, Any]]


@pytest.fixture(scope="module")
def body() -> Any:
    """ResNet-50's layers, narrower: a sixth of the weights, and of the file's time.
    `test_full_size.py` fills the real ones.
    """
    made = torchvision.models.resnet50(
        width_per_group=8, norm_layer=torchvision.ops.FrozenBatchNorm2d
    )
    made.fc = torch.nn.Identity()
    return made


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], tuple[str, str]]:
    def written(content: Any) -> tuple[str, str]:
        path = tmp_path / "R-50.pkl"
        path.write_bytes(pickle.dumps(content, protocol=2))
        return str(path), hashlib.sha256(path.read_bytes()).hexdigest()

    return written


@pytest.mark.slow
def test_every_layer_is_filled(
    body: Any, blobs_of: Blobs, write: Callable[[Any], tuple[str, str]]
) -> None:
    """A name that does not fit would leave a layer as it was drawn, and the target out of reach."""
    content = blobs_of(body)
    start_weights.load_msra_weights(body, *write({"blobs": content}))
    assert torch.equal(body.conv1.weight, torch.from_numpy(content["conv1_w"]))
    assert torch.equal(body.layer3[4].bn3.bias, torch.from_numpy(content["res4_4_branch2c_bn_b"]))
    assert torch.equal(
        body.layer4[0].downsample[0].weight, torch.from_numpy(content["res5_0_branch1_w"])
    )
    assert not body.bn1.running_mean.any() and (body.bn1.running_var == 1).all()


@pytest.mark.slow
def test_a_missing_layer_is_named(
    body: Any, blobs_of: Blobs, write: Callable[[Any], tuple[str, str]]
) -> None:
    """Half a network is worse than none."""
    content = blobs_of(body)
    del content["res3_1_branch2b_w"]
    with pytest.raises(RequestError, match=r"layer2\.1\.conv2\.weight is missing"):
        start_weights.load_msra_weights(body, *write(content))


@pytest.mark.slow
def test_another_file_is_refused(
    body: Any, blobs_of: Blobs, write: Callable[[Any], tuple[str, str]]
) -> None:
    """The hash is the user's word on what is in it."""
    path, _ = write(blobs_of(body))
    with pytest.raises(RequestError, match="its SHA-256 is"):
        start_weights.load_msra_weights(body, path, "0" * 64)
    with pytest.raises(RequestError, match="No such file"):
        start_weights.load_msra_weights(body, f"{path}.gone", "0" * 64)


class Program:
    """What a hostile pickle is."""

    def __reduce__(self) -> Any:
        return print, ("run",)


class Waste:
    """An array that no memory holds, or an encoding that there is not."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call = call, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "content",
    [
        Program(),
        {"conv1_w": Program()},
        [1, 2],
        b"text",
        Waste(codecs.encode, "x", "none such"),
        Waste(np.ndarray, (10**15,)),
    ],
)
def test_a_pickle_that_is_a_program_is_not_run(
    body: Any, write: Callable[[Any], tuple[str, str]], content: Any, capsys: Any
) -> None:
    """Reading a pickle can run anything; this one reads arrays."""
    with pytest.raises(RequestError, match="not weights of a ResNet-50"):
        start_weights.load_msra_weights(body, *write(content))
    assert capsys.readouterr().out == ""
