"""Collect what a judge finds below an organisation's folder, to judge it together."""

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
class OrganisationParts:
    """What was found below an organisation's folder."""

    sets: list[TrainingSet] = field(default_factory=list)
    entries: list[InferenceEntry] = field(default_factory=list)
    audits: list[Audit] = field(default_factory=list)
    systems: list[SystemFile] = field(default_factory=list)
    unexpected_paths: list[Path] = field(default_factory=list)
    unjudged_files: list[Path] = field(default_factory=list)
    unknown_workloads: set[str] = field(default_factory=set)
    """Workloads that are not installed here; each is reported once."""

    def build_submission(
        self, home: Path, round: Round, earlier: Sequence[Submission]
    ) -> Submission:
        """Build the submission document that the rules check."""
        return Submission(
            organisation_folder=home,
            sets=self.sets,
            entries=self.entries,
            audits=self.audits,
            systems=self.systems,
            unexpected_folders=self.unexpected_paths,
            misplaced_files=self.unjudged_files,
            links=tuple(strays.find_symlinks_below(home)),
            earlier=earlier,
            round=round,
        )
