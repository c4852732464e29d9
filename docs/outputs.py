"""Runs the commands of the pages' `console` blocks, and writes what they print below them:
`python docs/outputs.py`. A test compares both.

Such a block begins with `$ podium ...`; the paths in it are those of a clone.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BLOCK: Final = re.compile(
    r"^```console\n\$ podium (?P<arguments>.*)\n(?P<output>(?:.*\n)*?)```", re.M
)
WIDTH: Final = "100"
SECONDS: Final = re.compile(r"\b[\d.]+ s$", re.M)
"""How long a command took, at the end of a line: another time whenever it runs."""


def list_pages() -> list[Path]:
    """Return the pages that may have such blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def update_page(text: str) -> str:
    """Return a page with the present output of its commands."""
    return BLOCK.sub(rewrite_block, text)


def rewrite_block(block: re.Match[str]) -> str:
    """Return a block with the present output of its command, if that is another one."""
    arguments = block["arguments"]
    output = run_podium(shlex.split(arguments))
    if mask_seconds(output) == mask_seconds(block["output"]):
        return block[0]
    return f"```console\n$ podium {arguments}\n{output}```"


def mask_seconds(text: str) -> str:
    """Leave out how long a command took."""
    return SECONDS.sub("s", text)


def run_podium(arguments: list[str]) -> str:
    """Return what a command prints, whatever its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "podium", *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


def main() -> None:
    """Write the present output into every page."""
    for page in list_pages():
        before = page.read_text("utf-8")
        after = update_page(before)
        if after != before:
            page.write_text(after, "utf-8")
            print(f"{page.relative_to(ROOT)}: written")


if __name__ == "__main__":
    main()
