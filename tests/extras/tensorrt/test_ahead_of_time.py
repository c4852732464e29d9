"""`podium build` with a real TensorRT for RTX: a whole folder or none, and what is refused."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tensorrt_builds import require_rtx

from extras.tensorrt import ahead_of_time
from extras.tensorrt.cli import build
from extras.tensorrt.prebuilt import read_manifest
from harness.commands.infer import infer
from harness.request import build_reading_options
from harness.serving.weights.initial import export_random_weights
from suite.errors import MissingError, RequestError
from suite.files.layout import compute_file_sha256
from suite.rounds import Profile

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights of the smallest network."""
    require_rtx()
    results = tmp_path_factory.mktemp("weights")
    return export_random_weights("minigo", build_reading_options(Profile.SMOKE, None, results))


def built(weights: Path, folder: Path, targets: str, precisions: str) -> Result:
    words = ["minigo", "--target", targets, "--precision", precisions, "-o", str(folder)]
    return CliRunner().invoke(
        build,
        [*words, "--checkpoint", str(weights), "--results", str(folder.parent)],
        catch_exceptions=True,
    )


def test_each_combination_has_its_engine(weights: Path, tmp_path: Path) -> None:
    """And a manifest that says what it was built from; a second build replaces the first."""
    folder = tmp_path / "plans/minigo"
    assert built(weights, folder, "sm75,sm89", "fp16,int8").exit_code == 0
    manifest = read_manifest(folder)
    assert manifest.checkpoint_sha256 == weights.name
    assert manifest.library_version == require_rtx().version and manifest.refused == ()
    assert {each.file: each.sha256 for each in manifest.engines} == {
        f"minigo-{precision}-{target}.engine": compute_file_sha256(
            folder / f"minigo-{precision}-{target}.engine"
        )
        for precision in ("fp16", "int8")
        for target in ("sm75", "sm89")
    }
    assert built(weights, folder, "sm89", "fp16").exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "minigo-fp16-sm89.engine",
        "plans.json",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["minigo"]


def test_what_a_target_cannot_run_is_told_with_its_layer(weights: Path, tmp_path: Path) -> None:
    """The rest is built all the same; where nothing is left, there is no folder."""
    result = built(weights, tmp_path / "a", "sm75", "fp32,fp16")
    assert isinstance(result.exception, MissingError)
    assert "minigo was not built in fp32 for sm75: network minigo:" in str(result.exception)
    assert "Cannot compile operation 'node_linear'" in str(result.exception)
    manifest = read_manifest(tmp_path / "a")
    assert [each.precision for each in manifest.engines] == ["fp16"]
    assert [each.precision for each in manifest.refused] == ["fp32"]
    assert isinstance(built(weights, tmp_path / "b", "sm75", "bf16").exception, MissingError)
    assert not (tmp_path / "b").exists()


def test_a_full_disk_leaves_nothing(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an engine would be loaded, and crash."""
    folder = tmp_path / "plans"

    def write_half(path: Path, *_: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(ahead_of_time, "write_engine_file", write_half)
    result = built(weights, folder, "sm89", "fp16")
    assert isinstance(result.exception, MissingError)
    assert str(result.exception) == f"-o {folder}: No space left on device"
    assert not list(tmp_path.glob("plans*"))


def test_a_request_that_cannot_be_met_is_refused_at_once(weights: Path, tmp_path: Path) -> None:
    """Before anything is exported, and the files of others stay."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").touch()
    for folder, targets, precisions, told in (
        ("a", "sm90", "fp16", "target 'sm90': TensorRT for RTX .* builds for sm75, sm80, sm86"),
        ("mine", "sm89", "fp16", "holds other files .thesis.tex."),
        ("mine/thesis.tex", "sm89", "fp16", "Not a directory"),
    ):
        result = built(weights, tmp_path / folder, targets, precisions)
        assert isinstance(result.exception, RequestError), result
        with pytest.raises(RequestError, match=told):
            raise result.exception
    assert "'fp12' is not one of fp32" in built(weights, tmp_path / "a", "sm89", "fp12").output
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "thesis.tex"]


def test_a_generator_has_no_engine_to_build(tmp_path: Path) -> None:
    require_rtx()
    result = CliRunner().invoke(build, ["llama", "--target", "sm89", "-o", str(tmp_path / "a")])
    assert isinstance(result.exception, RequestError)
    assert "the engine tensorrt does not generate token by token" in str(result.exception)


def test_only_its_engine_takes_them(tmp_path: Path) -> None:
    """ONNX Runtime would serve the checkpoint, as if the option had no meaning."""
    result = CliRunner().invoke(
        infer, ["resnet50", "--plans", str(tmp_path), "--engine", "onnxruntime"]
    )
    assert isinstance(result.exception, RequestError)
    assert "needs --engine tensorrt, not onnxruntime" in str(result.exception)
