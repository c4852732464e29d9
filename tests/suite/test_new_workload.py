"""`podium new-workload`: what it writes is the example under another name, and works."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from suite.console import new_workload
from suite.errors import RequestError


def test_the_example_is_what_the_template_makes_of_its_own_name(tmp_path: Path) -> None:
    """The walk-through in the documents is about the same files that a newcomer gets."""
    written = new_workload.write_workload_package("rings_", tmp_path / "new")
    for path in written:
        source = new_workload.find_example_package() / str(
            path.relative_to(tmp_path / "new")
        ).replace("rings_", "rings")
        assert path.read_text().replace("rings_", "rings") == source.read_text()
    assert {
        "pyproject.toml",
        "README.md",
        "test_rings_.py",
        "podium-v1.toml",
        "training.py",
        "inference.py",
        "scoring.py",
    } <= {path.name for path in written}


def test_nothing_of_the_examples_name_is_left(tmp_path: Path) -> None:
    written = new_workload.write_workload_package("two_moons", tmp_path / "new")
    text = "".join(f"{path}\n{path.read_text()}" for path in written)
    assert (
        "rings" not in text.lower()
        and "class TwoMoonsTraining" in text
        and "from podium_two_moons import" in text
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Moons", "cannot be"),
        ("2d", "cannot be"),
        ("a-b", "cannot be"),
        ("gnmt", "installed already"),
        ("here", "exists already"),
    ],
)
def test_a_name_that_cannot_be_is_refused(name: str, why: str, tmp_path: Path) -> None:
    """Before anything is written."""
    (tmp_path / "here").mkdir()
    with pytest.raises(RequestError, match=why):
        new_workload.write_workload_package(name, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


@pytest.mark.slow
def test_the_new_package_passes_its_own_tests(tmp_path: Path) -> None:
    """With the commands that podium names."""
    new_workload.write_workload_package("moons", tmp_path / "new")
    here = ["--no-build-isolation", "--no-index"] if find_spec("hatchling") else []
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        *here,
    ]
    subprocess.run(
        [*pip, "--target", str(tmp_path / "installed"), str(tmp_path / "new")],
        check=True,
        timeout=300,
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "installed"),
        "PODIUM_CACHE": str(tmp_path / "cache"),
    }
    own = (  # pytest deletes all but the last three of its usual folders
        f"--basetemp={tmp_path / 'tested'}"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        own,
        str(tmp_path / "new" / "tests"),
    ]
    tested = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert tested.returncode == 0 and "4 passed" in tested.stdout, tested.stdout + tested.stderr
