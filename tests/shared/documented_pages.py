"""The pages of the documentation, and what stands on them as code."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks" / "results").glob("*.md"),
        *(ROOT / "workloads").glob("*/README.md"),
        *(ROOT / "compliance").glob("kinds/*/README.md"),
        *(ROOT / "submissions").glob("*/README.md"),
        *(ROOT / "extras").rglob("README.md"),
        *(ROOT / "suite").rglob("README.md"),
        *(ROOT / "examples").rglob("README.md"),
    ]
)
BLOCK: Final = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE: Final = re.compile(r"`([^`]+)`")
SHELL: Final = frozenset({"|", "||", "&&", ">", ";"})


def texts(page: str) -> Iterator[str]:
    """The lines of a page's blocks, then what stands between single backticks elsewhere, line ends
    and all.
    """
    for block in BLOCK.findall(page):
        yield from block.replace("\\\n", " ").splitlines()
    for text in INLINE.findall(BLOCK.sub("", page)):
        yield " ".join(text.split())
