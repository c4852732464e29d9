"""A podium that is installed without one of its extras trains and serves in all its processes."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from suite.process.installation import format_install_command

ROOT: Final = Path(__file__).parents[2]
EXTRAS: Final = sorted(path.parent.name for path in (ROOT / "extras").glob("*/__init__.py"))
FAKE: Final = (
    *("--framework", "fake", "--engine", "fake", "--device", "cpu"),
    *("--precision", "fp32", "--threads", "1"),
)

Podium = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_a_campaign_is_tried_without_an_extra(
    podium_without: Callable[[str], Podium], extra: str, tmp_path: Path
) -> None:
    """Its children import the harness anew, where nothing hides a module that they need."""
    podium = podium_without(extra)
    tried = podium("run", "fake", "--dry-run", "--results", tmp_path / "results", *FAKE)
    assert tried.returncode == 0, tried.stderr
    assert "fake: training, estimated" in tried.stdout
    assert "fake: serving, estimated" in tried.stdout


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_help_is_shown_without_an_extra(
    podium_without: Callable[[str], Podium], extra: str
) -> None:
    shown = podium_without(extra)("infer", "--help")
    assert shown.returncode == 0, shown.stderr
    assert "--scenario" in shown.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "words", "to_install"),
    [("tensorrt", ["infer", "resnet50", "--plans", "plans"], "tensorrt")],
)
def test_an_option_of_an_extra_says_what_to_install(
    podium_without: Callable[[str], Podium],
    extra: str,
    words: list[str],
    to_install: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command has its options from when it is imported: another process shows what is missing."""
    monkeypatch.chdir(tmp_path)  # in the clone, what to install is told without its path
    asked = podium_without(extra)(*words)
    sentence = f"option '{words[2]}' is not installed: {format_install_command(to_install)}"
    assert asked.returncode == 3
    assert " ".join(asked.stderr.split()) == f"podium: {sentence}"
