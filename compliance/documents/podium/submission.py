"""An organisation's part of a results tree: the document that rules across several entries
check.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.documents.podium.audit import Audit
from compliance.documents.podium.inference import InferenceEntry
from compliance.documents.podium.system_description import SystemFile
from compliance.documents.podium.training import TrainingSet
from compliance.verdict import Fault, Severity
from suite.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
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
    round: Round

    def build_fault(
        self, found: str, required: str, file: Path | None = None, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for this part of the tree."""
        return Fault(
            file=file or self.organisation_folder, found=found, required=required, severity=severity
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UninstalledResult:
    """A result of a workload that is not installed here."""

    document_name: ClassVar[str] = "a result of a workload that is not installed"

    path: Path
    workload: str
    round: Round
