"""Terminals that cannot show every letter: a `?` in its place, never an error."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ESCAPES = "\x1b]0;PWNED\x07\x1b[31m\u202ey\x9b2J"
"""A window's title, a bell, a colour, text from right to left, and a control character of one byte
with which some terminals begin a command.
"""
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


def spoil_texts(tree: Path) -> None:
    """Add letters that command a terminal to names and fields of a tree."""
    (organisation,) = tree.glob("*/acme")
    for description in (organisation / "systems").glob("*.json"):
        fields = json.loads(description.read_bytes())
        named = {"system_name", "accelerator_model_name", "submitter", "host_processor_model_name"}
        for name in named & set(fields):
            fields[name] = f"{fields[name]}{ESCAPES}"
        description.write_text(json.dumps(fields))
    for log in organisation.glob("results/*/*/result_*.txt"):
        text = log.read_text().replace(
            '"value": "SUBMISSION', '"value": "SUB' + json.dumps(ESCAPES)[1:-1]
        )
        log.write_text(text.replace('"key": "eval_stop"', '"key": "' + ESCAPES + '"', 1))
    for system in organisation.glob("*/*"):
        if system.parent.name in ("results", "measurements"):
            system.rename(system.with_name(system.name + ESCAPES))
    for description in (organisation / "systems").glob("*.json"):
        description.rename(description.with_name(f"{description.stem}{ESCAPES}.json"))
    organisation.rename(organisation.with_name(organisation.name + ESCAPES))


@pytest.mark.parametrize(
    "words",
    [
        *(["check", "--format", name] for name in ("text", "json", "github", "junit", "sarif")),
        *(["score", "--format", name] for name in ("text", "csv", "json")),
        *(["compare", "--format", name] for name in ("text", "markdown", "json")),
        *(["report", "--format", name] for name in ("markdown", "csv", "json")),
        ["pack", "-o", "packed.tar.zst"],
    ],
    ids=" ".join,
)
def test_no_command_prints_what_a_terminal_would_obey(
    make_tree: Callable[..., Path], tmp_path: Path, words: list[str]
) -> None:
    """`compare` and the annotations of `check` let the name of an organisation through."""
    trees = [make_tree(tmp_path / name, org="acme", nonce="a" * 32) for name in ("x", "y")]
    for tree in trees:
        spoil_texts(tree)
    given = trees if words[0] == "compare" else trees[:1]
    for width in ("80", "200"):
        command = [sys.executable, "-m", "suite.cli", *words, *map(str, given)]
        told = subprocess.run(
            command,
            env={**os.environ, "COLUMNS": width, "PYTHONIOENCODING": "utf-8:backslashreplace"},
            capture_output=True,
            check=False,
            cwd=tmp_path,
        )
        shown = (told.stdout + told.stderr).decode()
        assert "Traceback" not in shown and len(shown) > 80
        assert {letter for letter in shown if not letter.isprintable()} <= {"\n"}
