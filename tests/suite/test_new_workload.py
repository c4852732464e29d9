"""`podium new-workload`: what it writes is the example under another name, and works."""

import errno
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from suite.commands.new_workload import new_workload as command
from suite.console import new_workload
from suite.errors import MissingError, RequestError


def test_the_example_is_what_the_template_makes_of_its_own_name(tmp_path: Path) -> None:
    """The walk-through in the documents is about the same files that a newcomer gets."""
    written = new_workload.write_workload_package("rings2", tmp_path / "new")
    for path in written:
        source = new_workload.find_example_package() / str(
            path.relative_to(tmp_path / "new")
        ).replace("ings2", "ings")
        assert path.read_text().replace("ings2", "ings") == source.read_text()
    assert {
        "pyproject.toml",
        "README.md",
        "test_rings2.py",
        "podium-v1.toml",
        "training.py",
        "inference.py",
        "scoring.py",
    } <= {path.name for path in written}


def test_a_template_shares_what_is_not_its_own(tmp_path: Path) -> None:
    """Three copies of one file would soon be three files; every file of a template takes the place
    of one that the example has.
    """
    example = new_workload.read_copied_files(new_workload.find_example_package())
    for template in ("resnet50", "gnmt"):
        texts = new_workload.read_template_files(template)
        assert texts.keys() == example.keys()
        same = {Path(path).name for path, text in texts.items() if text == example[path]}
        assert {"training.py", "inference.py", "weights.py", "rules.py", "pyproject.toml"} <= same
        row = tomllib.loads(texts["podium_rings/podium-v1.toml"])["rings"]
        scenarios = row["inference"]["smoke"]["scenarios"]
        assert len(scenarios) == 4 and row["training"]["smoke"]["target"]


@pytest.mark.parametrize("template", new_workload.TEMPLATES)
def test_nothing_of_the_examples_name_is_left(template: str, tmp_path: Path) -> None:
    written = new_workload.write_workload_package("two_moons", tmp_path / "new", template)
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
        ("moons_", "not ending with _"),  # pip refuses podium-moons_
        ("all", "stands for all workloads"),
        ("suite", "in place of podium itself"),
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


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("dangling", "exists already"),
        ("file/new", "not written: Not a directory"),
        ("x" * 300, "not written: File name too long"),
    ],
)
def test_a_folder_that_cannot_be_is_refused(folder: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RequestError, match=why):
        new_workload.write_workload_package("moons", tmp_path / folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


def test_a_full_disk_leaves_no_part_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a package looks like one."""
    write = new_workload.write_named_file

    def fill(target: Path, text: str, name: str) -> Path:
        if target.name == "pyproject.toml":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(target, text, name)

    monkeypatch.setattr(new_workload, "write_named_file", fill)
    with pytest.raises(MissingError, match="not written: No space left on device"):
        new_workload.write_workload_package("moons", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_an_unknown_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="unknown template 'gnm'; did you mean 'gnmt'"):
        new_workload.write_workload_package("moons", tmp_path / "new", "gnm")
    assert not (tmp_path / "new").exists()


def test_the_command_names_the_templates(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    arguments = ["moons", "--like", "gnmt", "-o", str(folder)]
    told = CliRunner().invoke(command, arguments, catch_exceptions=False).output
    assert "podium run moons" in told
    assert "train.source" in (folder / "podium_moons" / "data.py").read_text()
    assert "train.source" in (folder / "README.md").read_text()
    refused = CliRunner().invoke(command, ["moons", "--like", "bert"])
    assert refused.exit_code == 2 and "'points', 'resnet50', 'gnmt'" in refused.output


@pytest.mark.slow
@pytest.mark.parametrize("template", new_workload.TEMPLATES)
def test_the_new_package_passes_its_own_tests(template: str, tmp_path: Path) -> None:
    """With the commands that podium names; pictures and text go from training to a sealed bundle,
    as points do in tests/plugin.
    """
    new_workload.write_workload_package("moons", tmp_path / "new", template)
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
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(tmp_path / "installed"), os.environ.get("PYTHONPATH")])
        ),
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
    if template == new_workload.DEFAULT_TEMPLATE:
        return
    run = [sys.executable, "-m", "suite.cli", "run", "moons", "--device", "cpu"]
    sealed = subprocess.run(
        [*run, "--seed", "1", "--results", str(tmp_path / "results")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert sealed.returncode == 0, sealed.stdout + sealed.stderr
    (bundle,) = (tmp_path / "results" / "bundles").glob("*.tar.zst")
    verified = subprocess.run(
        [sys.executable, "-m", "suite.cli", "verify", str(bundle)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
