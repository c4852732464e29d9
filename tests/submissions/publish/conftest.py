"""Bundles of the example results folder, made different by their nonces."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from submissions.pack.bundle import pack_results

TREE = Path(__file__).resolve().parents[2] / "examples" / "base" / "tree"


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that the judge accepts."""
    return pack_results(TREE, tmp_path_factory.mktemp("bundle") / "mine.tar.zst")


@pytest.fixture
def packed(tmp_path: Path) -> Callable[[str, str, str], Path]:
    """Pack the example once more, with one text in all its files put in another's place."""

    def make(name: str, old: str, new: str) -> Path:
        tree = tmp_path / f"tree-{name}"
        shutil.copytree(TREE, tree)
        for path in tree.rglob("*"):
            if path.is_file() and old in (text := path.read_text("utf-8")):
                path.write_text(text.replace(old, new), "utf-8")
        return pack_results(tree, tmp_path / f"{name}.tar.zst")

    return make
