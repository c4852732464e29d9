"""Collects what a judge finds below an organisation's folder, to be judged together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compliance.documents import unjudged_files as strays
from compliance.documents.podium.audit import Audit
from compliance.documents.podium.inference import InferenceEntry
from compliance.documents.podium.submission import Submission
from compliance.documents.podium.system_description import SystemFile
from compliance.documents.podium.training import TrainingSet
from suite.rounds import Round


@dataclass(slots=True)
class Parts:
    """What was found below an organisation's folder."""

    sets: list[TrainingSet] = field(default_factory=list)
    entries: list[InferenceEntry] = field(default_factory=list)
    audits: list[Audit] = field(default_factory=list)
    systems: list[SystemFile] = field(default_factory=list)
    strays: list[Path] = field(default_factory=list)
    loose: list[Path] = field(default_factory=list)
    strangers: set[str] = field(default_factory=set)
    """Workloads that are not installed here; each is reported once."""

    def submission(self, home: Path, round: Round, earlier: Sequence[Submission]) -> Submission:
        """Build the submission document that the rules check."""
        return Submission(
            home=home,
            sets=self.sets,
            entries=self.entries,
            audits=self.audits,
            systems=self.systems,
            strays=self.strays,
            loose=self.loose,
            links=tuple(strays.links_in(home)),
            earlier=earlier,
            round=round,
        )
