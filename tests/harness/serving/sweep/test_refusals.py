"""What `podium sweep` refuses before anything is measured."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from harness.commands.sweep import sweep
from suite.errors import RequestError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))


def invoked(*arguments: object) -> None:
    CliRunner().invoke(sweep, [*map(str, arguments)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to measure"),
        (("fake", "--batches", "0"), "batch sizes from 1 to"),
        (("fake", "--batches", "1,x"), "batch sizes from 1 to"),
        (("fake", "--within-ms", "0"), "not in the range"),
        (("fake", "--within-ms", "nan"), "not a finite number"),
        (("fake", "--seconds", "nan"), "not a finite number"),
        (("fake", "--seconds", "inf"), "not a finite number"),
    ],
)
def test_a_request_without_sense_is_a_usage_error(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    """Exit code 2, before anything is measured."""
    found = CliRunner().invoke(sweep, [*arguments, "--results", str(tmp_path / "r")])
    assert found.exit_code == 2 and words in found.output and not (tmp_path / "r").exists()


def test_options_of_one_subject_want_one(tmp_path: Path) -> None:
    """Weights for two networks are weights of another network for one of them."""
    with pytest.raises(
        RequestError, match="--weights requires exactly one --network: alexnet, vgg19"
    ):
        invoked(
            "--network",
            "alexnet",
            "--network",
            "vgg19",
            "--weights",
            tmp_path / "w",
            "--results",
            tmp_path,
        )
    with pytest.raises(RequestError, match="unknown network 'alexnett'"):
        invoked("--network", "alexnett", "--results", tmp_path)
    with pytest.raises(RequestError, match="a bare network has none; sweep the workload"):
        invoked("--network", "alexnet", "--precision", "int8", "--results", tmp_path)


def test_weights_that_do_not_fit_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    """A process for each batch would fail in turn, and leave a table without a figure."""
    strange = tmp_path / "other.safetensors"
    save_file({"conv.weight": torch.zeros(2, 2)}, strange)
    for path, words in (
        (strange, "weights of a network other than alexnet"),
        (tmp_path / "missing.safetensors", "no such file"),
    ):
        with pytest.raises(RequestError, match=words):
            invoked("--network", "alexnet", "--weights", path, "--results", tmp_path / "r")
    with pytest.raises(RequestError, match="share a folder"):
        invoked("resnet50", "--network", "resnet50", "--results", tmp_path / "r")
    assert not (tmp_path / "r").exists()
