"""Every script that a page runs takes the arguments that stand there, and every extra that a page
installs is one. The script's own parser reads them; nothing behind it runs.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Final

import pytest
from documented_pages import PAGES, ROOT, SHELL, texts

SCRIPT: Final = re.compile(r"(?:[A-Z]+=\S+ )*(?:\.venv/bin/)?python ([\w/]+\.py)(.*)", re.DOTALL)
EXTRA: Final = re.compile(r"(?:podium-suite|\.)\[([\w,-]+)\]")
PARSING: Final = """
import argparse, runpy, sys
read = argparse.ArgumentParser.parse_args
def parse_and_end(parser, *given, **named):
    read(parser, *given, **named)
    print("PARSED")
    sys.exit(0)
argparse.ArgumentParser.parse_args = parse_and_end
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PARSERLESS: Final = frozenset({"tests/compliance/builders/examples.py", "docs/outputs.py"})
"""Take at most a folder."""


def find_scripts() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Find the scripts that the pages run, with their arguments."""
    for page in PAGES:
        for text in texts(page.read_text("utf-8")):
            if match := SCRIPT.fullmatch(text.strip()):
                words = shlex.split(match[2], comments=True)
                end = next((place for place, word in enumerate(words) if word in SHELL), len(words))
                yield match[1], tuple(words[:end])


FOUND: Final = sorted(set(find_scripts()))


def parse_arguments(script: str, words: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    """Let a script read its arguments, and end there."""
    return subprocess.run(
        [sys.executable, "-c", PARSING, script, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_pages_run_scripts() -> None:
    """A pattern that finds nothing would pass."""
    assert len(FOUND) > 8


@pytest.mark.slow
@pytest.mark.parametrize(("script", "words"), FOUND)
def test_a_script_takes_what_its_page_gives_it(script: str, words: tuple[str, ...]) -> None:
    """A page named a script without the argument that it cannot do without."""
    assert (ROOT / script).is_file()
    if script not in PARSERLESS:
        outcome = parse_arguments(script, words)
        assert outcome.stdout.endswith("PARSED\n"), outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_a_missing_argument_is_found() -> None:
    assert parse_arguments("benchmarks/report.py", ("--bundel", "x")).returncode == 2


def test_the_extras_of_the_pages_are_some() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {
        extra
        for page in PAGES
        for found in EXTRA.findall(page.read_text("utf-8"))
        for extra in found.split(",")
    }
    assert {"run"} <= named <= known["optional-dependencies"].keys()
