"""`podium import`: weights under other sources' names become the same network here, and those of
another network are refused.
"""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from harness.commands.import_weights import import_command
from harness.commands.infer import infer
from harness.serving.weights.layouts import read_weight_layouts
from suite import registry
from suite.errors import RequestError
from workloads.common.detection.torchvision_import import torchvision
from workloads.resnet50 import model as resnet50


def imported(results: Path, file: Path, *more: str) -> Path:
    """Import ResNet-50's weights for the embedded data; return the checkpoint."""
    CliRunner().invoke(
        import_command,
        ["resnet50", str(file), "--results", str(results), *more],
        catch_exceptions=False,
    )
    (record,) = results.glob("checkpoints/resnet50/*/record.json")
    return record.parent


@pytest.mark.slow
def test_torchvisions_resnet50_answers_as_in_torchvision(tmp_path: Path) -> None:
    """A wrong name or a transposed tensor would still load, and answer otherwise."""
    torch.manual_seed(3)
    theirs = torchvision.models.resnet50(num_classes=12).eval()
    file = tmp_path / "resnet50.pth"
    torch.save(theirs.state_dict(), file)
    folder = imported(tmp_path / "r", file)
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1  # all for the same readers
    ours, _ = resnet50.load_resnet50_checkpoint(folder)
    with torch.inference_mode():
        picture = torch.randn(2, 3, 64, 64)
        assert torch.equal(ours(picture), theirs(picture))
    record = json.loads((folder / "record.json").read_text())
    assert (
        record["origin"].startswith("imported from torchvision's ResNet-50, SHA-256 ")
        and not record["target_reached"]
    )
    assert record["sha256"] == folder.name and record["reference_accuracy"] == {}


@pytest.mark.slow
def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    """One sentence that names what differs, exit code 2, and nothing that looks like a
    checkpoint.
    """
    for name, state, words in (
        (
            "classes",
            torchvision.models.resnet50(num_classes=10).state_dict(),
            r"another network than resnet50 in profile smoke: fc.bias of \[10\]",
        ),
        (
            "network",
            torchvision.models.resnet18(num_classes=12).state_dict(),
            r"no fc.weight|no layer1.0.bn3",
        ),
    ):
        file = tmp_path / f"{name}.safetensors"
        save_file(state, file)
        with pytest.raises(RequestError, match=words) as caught:
            imported(tmp_path / "r", file)
        assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    assert not list(tmp_path.glob("r/checkpoints/*"))


@pytest.mark.parametrize("content", [b"", b"\x80\x04c__builtin__\nexit\n.", b"not weights"])
def test_a_file_of_something_else_is_refused_and_never_executed(
    content: bytes, tmp_path: Path
) -> None:
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
        read_weight_layouts("fake")
    assert {
        file.point.name for file in registry.iterate_workload_files(registry.FOREIGN_WEIGHTS_FILE)
    } == {
        "gnmt",
        "maskrcnn",
        "resnet50",
        "ssd",
        "transformer",
    }


def test_weights_and_accuracy_exclude_each_other(tmp_path: Path) -> None:
    """Of weights that nobody trained no accuracy is told."""
    with pytest.raises(RequestError, match="omit --mode accuracy"):
        CliRunner().invoke(
            infer,
            ["resnet50", "--weights", "random", "--mode", "accuracy", "--results", str(tmp_path)],
            catch_exceptions=False,
        )
    with pytest.raises(RequestError, match="neither 'random' nor a folder"):
        CliRunner().invoke(
            infer,
            ["resnet50", "--weights", "rnd", "--results", str(tmp_path)],
            catch_exceptions=False,
        )


@pytest.mark.slow
def test_imported_weights_are_those_of_the_file(tmp_path: Path) -> None:
    """An imported checkpoint has the file's tensors, not those that it was exported with."""
    state = torchvision.models.resnet50(num_classes=12).state_dict()
    save_file(
        {f"module.{name}": tensor for name, tensor in state.items()}, tmp_path / "w.safetensors"
    )
    found = load_file(imported(tmp_path / "r", tmp_path / "w.safetensors") / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())


@pytest.mark.slow
def test_the_record_of_a_training_is_not_replaced(tmp_path: Path) -> None:
    """ResNet-50 has torchvision's names here too: a checkpoint of one's own, imported, would lose
    its scores and the proof that it was trained.
    """
    file = tmp_path / "w.safetensors"
    save_file(torchvision.models.resnet50(num_classes=12).state_dict(), file)
    record = imported(tmp_path / "r", file) / "record.json"
    trained = json.dumps(json.loads(record.read_text()) | {"origin": "", "target_reached": True})
    record.write_text(trained)
    with pytest.raises(
        RequestError, match="these weights were trained here, and their record stays"
    ):
        imported(tmp_path / "r", file)
    assert record.read_text() == trained and not list((tmp_path / "r").rglob("*.partial"))
