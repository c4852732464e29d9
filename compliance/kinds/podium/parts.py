"""Collect what a judge finds below an organisation's folder, to judge it together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compliance.kinds.podium.documents import unjudged_files as strays
from compliance.kinds.podium.documents.audit import Audit
from compliance.kinds.podium.documents.inference import InferenceEntry
from compliance.kinds.podium.documents.submission import Submission
from compliance.kinds.podium.documents.system_description import SystemFile
from compliance.kinds.podium.documents.training import TrainingSet
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
    unknown_workloads: set[tuple[Path, str]] = field(default_factory=set)
    """Folder and workload of each result whose workload is not installed here."""

    def build_submission(
        self, home: Path, round: Round, earlier: Sequence[Submission], *, is_reserved: bool = False
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
            is_reserved=is_reserved,
            round=round,
        )
