"""The reference translations that the judge reads: one sentence per line, in sample order; imports
no framework.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

REFERENCES_FILE: Final = "references.txt"


def read_references(truth: Path) -> list[str]:
    """Read one reference per line; ValueError if there is none."""
    path = truth / REFERENCES_FILE
    # Unicode's other line ends occur within sentences of WMT
    lines = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    if lines == [""]:
        raise ValueError(f"{path}: no references")
    return lines


def write_references(truth: Path, references: Sequence[str]) -> None:
    """Write the references in the form that `read_references` reads."""
    (truth / REFERENCES_FILE).write_bytes("".join(f"{line}\n" for line in references).encode())
