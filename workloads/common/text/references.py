"""The reference translations as the judge reads them: one sentence per line, in the order of the samples; no framework."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

REFERENCES: Final = "references.txt"


def read(truth: Path) -> list[str]:
    """Read one reference a line; ValueError if there is none."""
    path = truth / REFERENCES
    lines = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")  # other line ends of Unicode stand inside sentences of WMT
    if lines == [""]:
        raise ValueError(f"{path}: no references")
    return lines


def write(truth: Path, references: Sequence[str]) -> None:
    """Write what `read` reads."""
    (truth / REFERENCES).write_bytes("".join(f"{line}\n" for line in references).encode())
