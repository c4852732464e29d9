"""One folder has all temporary files of a command, and nothing of it stays."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from suite.errors import MissingError
from suite.files.scratch import (
    ABANDONED_AFTER_S,
    SCRATCH_PREFIX,
    collect_temporary_files,
    create_temporary_folder,
    remove_abandoned_folders,
)

KILLED = """
import os, signal
from suite.files.scratch import {name}
with {name}() as folder:
    (folder / "weights").write_bytes(b"much")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def age(folder: Path) -> None:
    old_s = time.time() - ABANDONED_AFTER_S - 5
    os.utime(folder, (old_s, old_s))


def test_files_of_libraries_and_children_go_with_it(parent: Path) -> None:
    """PyTorch keeps the name of its folder in the environment."""
    with collect_temporary_files() as folder:
        assert folder.is_relative_to(parent) and list(folder.iterdir()) == []
        os.environ["SOME_CACHE_DIR"] = tempfile.mkdtemp()
        made = subprocess.run(
            [sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp())"],
            capture_output=True,
            text=True,
            check=True,
        )
        for path in (os.environ["SOME_CACHE_DIR"], made.stdout.strip()):
            assert Path(path).parent.name.startswith(SCRATCH_PREFIX)
    assert list(parent.iterdir()) == [] and os.environ["TMPDIR"] == str(parent)
    assert "SOME_CACHE_DIR" not in os.environ and tempfile.gettempdir() == str(parent)


def test_a_nested_block_has_a_part_of_the_folder(parent: Path) -> None:
    """A process that lives on keeps the path of the first one."""
    with collect_temporary_files():
        with collect_temporary_files() as part:
            (part / "file").touch()
            first = tempfile.gettempdir()
        assert not part.exists() and tempfile.gettempdir() == first
        assert [path.name for path in parent.iterdir()] == [Path(first).name]
    assert list(parent.iterdir()) == []


@pytest.mark.parametrize("name", ["collect_temporary_files", "create_temporary_folder"])
def test_the_next_one_removes_what_a_killed_process_left(parent: Path, name: str) -> None:
    """Each killed `check` or `report` left an unpacked bundle for ever."""
    killed = subprocess.run([sys.executable, "-c", KILLED.format(name=name)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = parent.iterdir()
    with collect_temporary_files():
        assert left.exists(), "too young: its process may not have locked it yet"
    age(left)
    with create_temporary_folder():
        assert not left.exists()


def test_what_is_in_use_or_not_ours_stays(parent: Path) -> None:
    kept = parent / "kept"
    kept.mkdir()
    age(kept)
    (parent / f"{SCRATCH_PREFIX}link").symlink_to(kept)
    (parent / f"{SCRATCH_PREFIX}file").touch()
    with collect_temporary_files() as folder:
        age(folder.parent)
        other = multiprocessing.get_context("spawn").Process(
            target=remove_abandoned_folders, args=(parent,)
        )
        other.start()
        other.join()
        assert folder.exists() and other.exitcode == 0
    assert sorted(path.name for path in parent.iterdir()) == [
        "kept",
        f"{SCRATCH_PREFIX}file",
        f"{SCRATCH_PREFIX}link",
    ]


def test_no_folder_for_temporary_files_is_one_sentence(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(parent / "missing"))
    why = "temporary files: No such file or directory; set TMPDIR"
    with pytest.raises(MissingError, match=why), collect_temporary_files():
        pass


def test_no_module_has_temporary_folders_that_a_kill_would_leave() -> None:
    """Those beside a file that is being written are removed by whoever writes it next."""
    root = Path(__file__).parents[3]
    packages = ("compliance", "extras", "harness", "submissions", "suite", "workloads")
    modules = [path for package in packages for path in (root / package).rglob("*.py")]
    text = {path: path.read_text() for path in modules if path.name != "scratch.py"}
    assert len(text) > 300
    unlocked = re.compile(r"TemporaryDirectory\((?!dir=)|mkdtemp\((prefix|\))")
    assert [path for path, content in text.items() if unlocked.search(content)] == []
