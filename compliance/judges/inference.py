"""Judges published inference results: a LoadGen run, an entry, a system, an organisation, a whole submission."""

from collections.abc import Iterator
from pathlib import Path

from compliance.tree import Target
from compliance.verdict import Finding
from suite.rounds.published_inference import PublishedInference


class InferenceJudge:
    """Judges paths by one published inference round; `truth` holds labels where the tree has none."""

    def __init__(self, round: PublishedInference, truth: Path | None) -> None:
        self.round, self.truth = round, truth

    def findings(self, target: Target, inside: Path) -> Iterator[Finding]:
        """Apply what is known about this kind of path."""
        yield from ()
