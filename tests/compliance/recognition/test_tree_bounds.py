"""Folders from somebody else: a million files, thousands of levels, files of a terabyte."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples import EXAMPLES

from compliance.recognition import tree_bounds
from compliance.recognition.tree_bounds import find_tree_excess
from suite.cli import group
from suite.errors import PodiumError

TREE = EXAMPLES / "base" / "ledger"
TERABYTE = 1 << 40


def nest_folders(tree: Path) -> None:
    """1,500 of them, which only relative paths reach."""
    here = Path.cwd()
    os.chdir(next(tree.rglob("run_1")))
    for _ in range(1_500):
        Path("d").mkdir()
        os.chdir("d")
    os.chdir(here)


def nest_alone(tree: Path) -> None:
    shutil.rmtree(tree)
    (tree / "run_1").mkdir(parents=True)
    nest_folders(tree)


def fill_folder(tree: Path) -> None:
    run = next(tree.rglob("run_1"))
    for number in range(tree_bounds.MAX_FOLDER_FILES + 1):
        (run / f"stray{number}").touch()


def fill_truth(tree: Path) -> None:
    folder = next(tree.rglob("systems")) / "more"
    folder.mkdir()
    for number in range(tree_bounds.MAX_FOLDER_FILES + 1):
        (folder / f"stray{number}").mkdir()


def stretch(pattern: str) -> Callable[[Path], None]:
    def stretch_file(tree: Path) -> None:
        path = next(tree.rglob(pattern), next(tree.rglob("run_1")) / pattern)
        path.touch()
        os.truncate(path, TERABYTE)

    stretch_file.__name__ = pattern
    return stretch_file


SPOILED = [
    nest_folders,
    nest_alone,
    fill_folder,
    fill_truth,
    *map(
        stretch,
        (
            "mlperf_log_detail.txt",
            "mlperf_log_summary.txt",
            "mlperf_log_accuracy.json",
            "accuracy.txt",
            "run.json",
            "queries.npy",
            "telemetry.jsonl",
            "result_0.txt",
            "systems/*.json",
            "ledger/*.jsonl",
            "truth/*/*",
            "record.json",
        ),
    ),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return shutil.copytree(TREE, tmp_path / "tree")


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_what_is_beyond_a_bound_is_a_finding_and_not_read(
    tree: Path, spoil: Callable[[Path], None]
) -> None:
    """A traceback, hours of hashing zeros, and gigabytes of names."""
    spoil(tree)
    try:
        excess = find_tree_excess(tree)
        assert excess is not None
        page, bundle = tree.parent / "r.html", tree.parent / "b.tar.zst"
        for words in (
            ["check"],
            ["score"],
            ["report", "-o", str(page)],
            ["pack", "-o", str(bundle)],
        ):
            told = CliRunner().invoke(group, [*words, str(tree)], standalone_mode=False)
            assert told.return_value == 1 or isinstance(told.exception, PodiumError), told.exception
            shown = f"{told.output}{told.exception}".replace("&#39;", "'")
            assert excess.found in shown or excess.found in page.read_text()
    finally:
        subprocess.run(["rm", "-rf", str(tree)], check=True)


def test_weights_and_code_may_be_large(tree: Path) -> None:
    """The judge reads neither."""
    for name in ("checkpoints/fake/a/model.safetensors", "open/acme/code/data.bin"):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, TERABYTE)
    assert find_tree_excess(tree) is None


def test_as_much_as_a_bound_allows_is_looked_into(tree: Path) -> None:
    folder = tree.joinpath(*["d"] * tree_bounds.MAX_FOLDER_LEVELS)
    folder.mkdir(parents=True)
    os.truncate(next(tree.rglob("run.json")), tree_bounds.MAX_READ_BYTES)
    assert find_tree_excess(tree) is None
    (folder / "d" / "d").mkdir(parents=True)
    assert find_tree_excess(tree) is not None


def fill_in_one(tree: Path) -> None:
    for number in range(50):
        (tree / f"stray{number}").touch()


def fill_in_many(tree: Path) -> None:
    for number in range(50):
        (tree / f"more{number % 10}").mkdir(exist_ok=True)
        (tree / f"more{number % 10}" / f"stray{number}").touch()


def fill_with_folders(tree: Path) -> None:
    for number in range(50):
        (tree / f"more{number}").mkdir()


@pytest.mark.parametrize("fill", [fill_in_one, fill_in_many, fill_with_folders])
def test_no_folder_is_full_and_all_together_are_too_many(
    tree: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[Path], None]
) -> None:
    """A million files in a hundred folders are as many as in one."""
    monkeypatch.setattr(tree_bounds, "MAX_TREE_FILES", sum(1 for _ in tree.rglob("*")) + 20)
    monkeypatch.setattr(tree_bounds, "MAX_FOLDER_FILES", 1_000)
    assert find_tree_excess(tree) is None
    fill(tree)
    excess = find_tree_excess(tree)
    assert excess is not None and excess.path == tree and excess.found.startswith("more than")
    told = CliRunner().invoke(group, ["check", str(tree)], standalone_mode=False)
    assert told.return_value == 1 and excess.found in told.output


@pytest.mark.parametrize("name", sorted(tree_bounds.UNREAD_FOLDERS))
def test_files_that_are_not_read_are_not_counted(
    tree: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The code of a submission may be as large as it likes."""
    monkeypatch.setattr(tree_bounds, "MAX_TREE_FILES", sum(1 for _ in tree.rglob("*")) + 20)
    (tree / name).mkdir(exist_ok=True)
    fill_in_one(tree / name)
    assert find_tree_excess(tree) is None


def test_few_names_of_a_full_folder_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million of them took a gigabyte."""
    monkeypatch.setattr(tree_bounds, "MAX_FOLDER_FILES", 3)
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert len(tree_bounds.list_first_entries(str(tmp_path))) == 4


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to(".")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "gone").symlink_to("nowhere")
    assert find_tree_excess(tmp_path) is None and find_tree_excess(tmp_path / "none") is None
