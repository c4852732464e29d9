"""Terminals that cannot show every letter: a `?` in its place, never an error."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

NAMES = ("速い", "größer")
BOXES = "│┃━─┏┡╇└"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "gbk"])
@pytest.mark.parametrize("words", [["score"], ["check"], ["compare"]])
def test_names_that_a_terminal_cannot_show_end_no_command(
    make_tree: Callable[..., Path], tmp_path: Path, encoding: str, words: list[str]
):
    """The exit code is the one that UTF-8 has."""
    trees = [
        make_tree(tmp_path / name, org=name, nonce=letter * 32)
        for name, letter in zip(NAMES, "ab", strict=True)
    ]
    command = [sys.executable, "-m", "suite.cli", *words, *map(str, trees)]
    plain, shown = (
        subprocess.run(
            command,
            env={**os.environ, "PYTHONIOENCODING": each, "COLUMNS": "150"},
            capture_output=True,
            check=False,
        )
        for each in ("utf-8", encoding)
    )
    said, errors = shown.stdout.decode(encoding), shown.stderr.decode(encoding)
    assert "Traceback" not in errors and shown.returncode == plain.returncode
    assert len(said.splitlines()) == len(plain.stdout.decode().splitlines())
    assert not set(BOXES) & set(said) and ("?" in said or encoding == "gbk")
