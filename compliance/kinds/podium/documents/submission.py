"""An organisation's part of a results tree: the document that rules across several entries
check.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.documents.base import Document
from compliance.kinds.podium.documents.audit import Audit
from compliance.kinds.podium.documents.inference import InferenceEntry
from compliance.kinds.podium.documents.system_description import SystemFile
from compliance.kinds.podium.documents.training import TrainingSet
from suite.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Document):
    """Everything of one organisation in one division, or of one of its systems."""

    document_name: ClassVar[str] = "an organisation"

    organisation_folder: Path
    sets: Sequence[TrainingSet]
    entries: Sequence[InferenceEntry]
    systems: Sequence[SystemFile]
    unexpected_folders: Sequence[Path]
    """Folders below results/ that are neither a benchmark nor a scenario of the round."""
    misplaced_files: Sequence[Path]
    """Files in places where only folders belong."""
    links: Sequence[Path]
    """Links instead of files and folders."""
    audits: Sequence[Audit] = ()
    """Compliance tests."""
    earlier: "Sequence[Submission]" = ()
    """Submissions of other organisations in the same tree that were read before this one."""
    is_reserved: bool = False
    """Whether it has no file, and another organisation of the tree has some."""
    round: Round

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.organisation_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class UninstalledResult:
    """A result of a workload that is not installed here."""

    document_name: ClassVar[str] = "a result of a workload that is not installed"

    path: Path
    workload: str
    round: Round
