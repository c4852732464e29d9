"""The light core, installed alone in a venv of its own, judges and compares without any
framework.
"""

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"aiohttp", "tensorflow", "torch", "torchvision"}


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the light core from its folder, by the pip of this environment; give the folder of
    its commands.
    """
    home = tmp_path_factory.mktemp("light")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    install = [
        "install",
        "-q",
        "--no-compile",
        "--no-warn-conflicts",
        "-c",
        ROOT / "constraints.txt",
        ROOT,
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", home / "bin" / "python", *install], check=True
    )
    return home / "bin"


@pytest.mark.slow
def test_no_framework_is_pulled_in(light: Path) -> None:
    """Who only checks, scores or compares must not download gigabytes."""
    names = {
        each.name
        for each in distributions(path=map(str, light.parent.glob("lib/python*/site-packages")))
    }
    assert "podium-suite" in names and not HEAVY & names


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "score", "verify", "compare", "explain"])
def test_commands_answer(light: Path, command: str, tmp_path: Path) -> None:
    """A path that is not there is a verdict or a sentence, never a traceback from a missing
    framework.
    """
    result = subprocess.run(
        [light / "podium", command, str(tmp_path / "nothing")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in (1, 2)
    assert "Traceback" not in result.stderr
    assert (
        subprocess.run(
            [light / "podium", command, "--help"], capture_output=True, check=False
        ).returncode
        == 0
    )


@pytest.mark.slow
def test_list_names_the_workloads(light: Path) -> None:
    """The rounds and rows travel with the light core."""
    assert (
        "resnet50"
        in subprocess.run(
            [light / "podium", "list"], capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.slow
def test_published_rows_travel_with_it(light: Path) -> None:
    """They are data files, which a wheel leaves out where nobody asks for them."""
    told = subprocess.run(
        [light / "podium", "published", "gnmt"], capture_output=True, text=True, check=True
    ).stdout
    assert "training-v0.6" in told and "inference-v0.5" in told


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "infer"])
def test_what_needs_the_extra_says_so(light: Path, command: str, tmp_path: Path) -> None:
    """A missing extra is one sentence that names it, and exit 3."""
    result = subprocess.run(
        [light / "podium", command, "resnet50", "--results", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3, result.stderr
    assert "pip install" in result.stderr and "[run]'" in result.stderr
    assert "Traceback" not in result.stderr
