"""A run of Acme's, as read."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.recognition.tree_path import read_file_head
from podium_acme.round import AcmeRound


@dataclass(frozen=True, slots=True, kw_only=True)
class AcmeRun:
    """A run."""

    document_name: ClassVar[str] = "a run of Acme's"

    log: Path
    round: AcmeRound
    values: dict[str, float]


def read_acme_run(log: Path, round: AcmeRound) -> AcmeRun:
    """Read the numbers of a log."""
    pairs = (line.split(" ", 1) for line in read_file_head(log).decode().splitlines()[1:])
    return AcmeRun(log=log, round=round, values={key: float(value) for key, value in pairs})
