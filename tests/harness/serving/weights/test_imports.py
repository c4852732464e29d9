"""`podium import`: weights under other sources' names become the same network here, and those of another network are refused."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from harness.cli import infer
from harness.serving.weights.layouts import difference, layouts, translated
from harness.weights_and_peak_cli import import_command
from suite import registry
from suite.errors import RequestError
from workloads.common.detection.torchvision_import import torchvision
from workloads.gnmt.model import GNMT
from workloads.maskrcnn import model as maskrcnn
from workloads.resnet50 import model as resnet50
from workloads.ssd import model as ssd
from workloads.transformer.model import Transformer
from workloads.transformer.recipe import Shape

State = Mapping[str, torch.Tensor]


def imported(results: Path, file: Path, *more: str) -> Path:
    """Import ResNet-50's weights for the embedded data; return the checkpoint."""
    CliRunner().invoke(import_command, ["resnet50", str(file), "--results", str(results), *more], catch_exceptions=False)
    (record,) = results.glob("checkpoints/resnet50/*/record.json")
    return record.parent


def test_torchvisions_resnet50_answers_as_in_torchvision(tmp_path: Path) -> None:
    """A wrong name or a transposed tensor would still load, and answer otherwise."""
    torch.manual_seed(3)
    theirs = torchvision.models.resnet50(num_classes=12).eval()
    file = tmp_path / "resnet50.pth"
    torch.save(theirs.state_dict(), file)
    folder = imported(tmp_path / "r", file)
    ours, _ = resnet50.load(folder)
    with torch.inference_mode():
        picture = torch.randn(2, 3, 64, 64)
        assert torch.equal(ours(picture), theirs(picture))
    record = json.loads((folder / "record.json").read_text())
    assert record["origin"].startswith("imported from torchvision's ResNet-50, SHA-256 ") and not record["target_reached"]
    assert record["sha256"] == folder.name and record["reference_accuracy"] == {}


def renamed(state: State, pairs: list[tuple[str, str]]) -> dict[str, torch.Tensor]:
    """Give tensors the names that another source has, by the first pattern that fits."""
    return {next(re.sub(f"^{mine}$", theirs, name) for mine, theirs in pairs if re.fullmatch(mine, name)): tensor for name, tensor in state.items()}


def ssd_there() -> tuple[dict[str, Any], State]:
    """SSD under the reference's names: ssd300.py, base_model.py; saved by train.py under `model`, from several GPUs."""
    state = ssd.build("300", 81).state_dict()
    pairs = [(r"trunk\.conv1\.(.*)", r"model.layer1.0.\1"), (r"trunk\.bn1\.(.*)", r"model.layer1.1.\1"), (r"trunk\.layer1\.(.*)", r"model.layer1.4.\1"),
             (r"trunk\.layer2\.(.*)", r"model.layer1.5.\1"), (r"trunk\.layer3\.(.*)", r"model.layer2.0.\1"),
             (r"extras\.(.*)", r"additional_blocks.\1"), (r"places\.(.*)", r"loc.\1"), (r"kinds\.(.*)", r"conf.\1")]  # fmt: skip
    return {"model": {f"module.{name}": tensor for name, tensor in renamed(state, pairs).items()}, "epoch": 49}, state


def gnmt_there() -> tuple[dict[str, Any], State]:
    """GNMT under the reference's names: encoder.py, decoder.py, attention.py."""
    state = GNMT(64, 16, 4).state_dict()
    made: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        shift = {"encoder.layers.": 1, "decoder.layers.": -1}
        for start, more in shift.items():
            if name.startswith(start) and (start[0] == "e" or not name.startswith("decoder.layers.0")):
                level, _, rest = name.removeprefix(start).partition(".")
                made[f"{start[:7]}.rnn_layers.{int(level) + more}.{rest}"] = tensor
                break
        else:
            made |= renamed({name: tensor}, [
                (r"embedding\.weight", "encoder.embedder.weight"), (r"encoder\.onward\.(.*)", r"encoder.rnn_layers.0.\1"),
                (r"encoder\.backward_\.(.*)", r"encoder.rnn_layers.0.\1_reverse"), (r"decoder\.layers\.0\.(.*)", r"decoder.att_rnn.rnn.\1"),
                (r"decoder\.attention\.query\.weight", "decoder.att_rnn.attn.linear_q.weight"),
                (r"decoder\.attention\.key\.weight", "decoder.att_rnn.attn.linear_k.weight"),
                (r"decoder\.attention\.direction", "decoder.att_rnn.attn.linear_att"),
                (r"decoder\.attention\.scale", "decoder.att_rnn.attn.normalize_scalar"),
                (r"decoder\.attention\.bias", "decoder.att_rnn.attn.normalize_bias"),
                (r"decoder\.classifier\.(.*)", r"decoder.classifier.classifier.\1")])  # fmt: skip
    return {"state_dict": made | {"decoder.embedder.weight": made["encoder.embedder.weight"]}, "epoch": 3}, state


def transformer_there() -> tuple[dict[str, Any], State]:
    """The Transformer under TensorFlow's variable names; kernels are inputs x outputs, projections are apart."""
    state = Transformer(Shape(layers=2, width=16, filter=32, heads=2, vocabulary=40)).state_dict()
    made: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        made |= {f"model/Transformer/{theirs}": part for theirs, part in there(name, tensor)}
    return made | {"global_step": torch.tensor(1)}, state


def there(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Name a tensor of the Transformer as the reference's scopes do."""
    norm = {"weight": "layer_normalization/layer_norm_scale", "bias": "layer_normalization/layer_norm_bias"}
    if name == "embedding":
        yield "embedding_shared_weights/embedding_and_softmax/weights", tensor
        return
    side, _, rest = name.partition(".")
    stack = f"{side[:2]}code/{side[:2]}coder_stack"
    if side.endswith("_norm"):
        yield f"{stack}/{norm[rest]}", tensor
        return
    level, kind, *inner = rest.split(".")
    scope = {"attention": "self_attention", "source": "encdec_attention", "filter": "ffn"}[kind.removesuffix("_norm")]
    base, layer = f"{stack}/layer_{level}/{scope}", {"self_attention": "self_attention", "encdec_attention": "attention", "ffn": "feed_foward_network"}[scope]
    if kind.endswith("_norm"):
        yield f"{base}/{norm[inner[0]]}", tensor
    elif inner[0] in ("qkv", "memory"):
        names = "qkv" if inner[0] == "qkv" else "kv"
        yield from ((f"{base}/{layer}/{each}/kernel", part.t()) for each, part in zip(names, tensor.chunk(len(names)), strict=True))
    else:
        theirs = {"query": "q", "out": "output_transform", "inner": "filter_layer", "outer": "output_layer"}[inner[0]]
        yield f"{base}/{layer}/{theirs}/{'kernel' if inner[1] == 'weight' else 'bias'}", tensor.t() if inner[1] == "weight" else tensor


def maskrcnn_there() -> tuple[dict[str, Any], State]:
    """Mask R-CNN under maskrcnn_benchmark's names."""
    classes = tuple(f"class {number}" for number in range(3))
    description = maskrcnn.Description(workload="maskrcnn", classes=classes, min_size=64, max_size=96, anchor_sizes=(8, 16, 32, 64, 128), frozen_norm=True)
    state = maskrcnn.MaskRCNN(description, maskrcnn.Counts()).state_dict()
    made: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        if match := re.fullmatch(r"backbone\.fpn\.(inner|layer)_blocks\.(\d)\.0\.(.*)", name):
            made[f"backbone.fpn.fpn_{match[1]}{int(match[2]) + 1}.{match[3]}"] = tensor
        elif match := re.fullmatch(r"roi_heads\.mask_head\.(\d)\.0\.(.*)", name):
            made[f"roi_heads.mask.feature_extractor.mask_fcn{int(match[1]) + 1}.{match[2]}"] = tensor
        else:
            made |= renamed({name: tensor}, [
                (r"backbone\.body\.((?:conv1|bn1)\..*)", r"backbone.body.stem.\1"), (r"backbone\.body\.(.*)", r"backbone.body.\1"),
                (r"rpn\.head\.conv\.0\.0\.(.*)", r"rpn.head.conv.\1"), (r"rpn\.head\.(.*)", r"rpn.head.\1"),
                (r"roi_heads\.box_head\.(.*)", r"roi_heads.box.feature_extractor.\1"), (r"roi_heads\.box_predictor\.(.*)", r"roi_heads.box.predictor.\1"),
                (r"roi_heads\.mask_predictor\.(.*)", r"roi_heads.mask.predictor.\1")])  # fmt: skip
    return {"model": made | {"rpn.anchor_generator.cell_anchors.0": torch.zeros(3, 4)}, "iteration": 1}, state


@pytest.mark.parametrize(("workload", "source"), [("ssd", ssd_there), ("gnmt", gnmt_there), ("transformer", transformer_there), ("maskrcnn", maskrcnn_there)])
def test_a_references_names_give_every_tensor_its_place(workload: str, source: Callable[[], tuple[dict[str, Any], State]]) -> None:
    """A name that the table lacks, or two that it exchanges, would be a network with random or wrong layers."""
    state, wanted = source()
    (layout,) = layouts(workload)
    made, strange = translated(state, layout)
    assert strange == [] and difference(made, wanted) == []
    assert all(torch.equal(made[name], wanted[name]) for name in made)


def test_gnmts_bidirectional_layer_is_the_references() -> None:
    """The reference has one nn.LSTM in two directions where this has two networks: both must give the same memory."""
    state, wanted = gnmt_there()
    (layout,) = layouts("gnmt")
    made, _ = translated(state, layout)
    network = GNMT(64, 16, 4).eval()
    network.load_state_dict(made)
    theirs = torch.nn.LSTM(16, 16, batch_first=True, bidirectional=True)
    names = state["state_dict"]
    theirs.load_state_dict({name.removeprefix("encoder.rnn_layers.0."): tensor for name, tensor in names.items() if name.startswith("encoder.rnn_layers.0.")})
    words = torch.randint(4, 60, (2, 5))
    with torch.inference_mode():
        embedded = torch.nn.functional.embedding(words, names["encoder.embedder.weight"])
        both, _ = theirs(embedded)
        network.encoder.layers = torch.nn.ModuleList()
        torch.testing.assert_close(network.encoder(network.embedding(words), torch.tensor([5, 5])), both)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    """One sentence that names what differs, exit code 2, and nothing that looks like a checkpoint."""
    for name, state, words in (
        ("classes", torchvision.models.resnet50(num_classes=10).state_dict(), r"another network than resnet50 in profile smoke: fc.bias of \[10\]"),
        ("network", torchvision.models.resnet18(num_classes=12).state_dict(), r"no fc.weight|no layer1.0.bn3"),
    ):
        file = tmp_path / f"{name}.safetensors"
        save_file(state, file)
        with pytest.raises(RequestError, match=words) as caught:
            imported(tmp_path / "r", file)
        assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    assert not list(tmp_path.glob("r/checkpoints/*"))


@pytest.mark.parametrize("content", [b"", b"\x80\x04c__builtin__\nexit\n.", b"not weights"])
def test_a_file_of_something_else_is_refused_and_never_executed(content: bytes, tmp_path: Path) -> None:
    """A pickle may hold code."""
    for name in ("w.pth", "w.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RequestError, match="neither safetensors nor a state dict"):
            imported(tmp_path / "r", tmp_path / name)


def test_a_missing_file_and_a_workload_without_a_table(tmp_path: Path) -> None:
    """Each is one sentence."""
    with pytest.raises(RequestError, match="No such file"):
        imported(tmp_path / "r", tmp_path / "none.pth")
    with pytest.raises(RequestError, match="fake has no table of other sources' weights"):
        layouts("fake")
    assert set(registry.points(registry.IMPORTS)) == {"gnmt", "maskrcnn", "resnet50", "ssd", "transformer"}


def test_weights_and_accuracy_exclude_each_other(tmp_path: Path) -> None:
    """Of weights that nobody trained no accuracy is told."""
    with pytest.raises(RequestError, match="leave out --mode accuracy"):
        CliRunner().invoke(infer, ["resnet50", "--weights", "random", "--mode", "accuracy", "--results", str(tmp_path)], catch_exceptions=False)
    with pytest.raises(RequestError, match="neither 'random' nor a folder"):
        CliRunner().invoke(infer, ["resnet50", "--weights", "rnd", "--results", str(tmp_path)], catch_exceptions=False)


def test_imported_weights_are_those_of_the_file(tmp_path: Path) -> None:
    """An imported checkpoint has the file's tensors, not those that it was exported with."""
    state = torchvision.models.resnet50(num_classes=12).state_dict()
    save_file({f"module.{name}": tensor for name, tensor in state.items()}, tmp_path / "w.safetensors")
    found = load_file(imported(tmp_path / "r", tmp_path / "w.safetensors") / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
