"""Judges published training logs: a log, a set, a system, an organisation, a tree of organisations."""

from collections.abc import Iterator
from pathlib import Path

from compliance.tree import Target
from compliance.verdict import Finding
from suite.rounds.published_training import PublishedTraining


class TrainingJudge:
    """Judges paths by one published training round."""

    def __init__(self, round: PublishedTraining) -> None:
        self.round = round

    def findings(self, target: Target, inside: Path) -> Iterator[Finding]:
        """Apply what is known about this kind of path."""
        yield from ()
