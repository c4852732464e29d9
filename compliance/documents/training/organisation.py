"""An organisation's submission to a published training round: its sets, its system descriptions,
and the remaining files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.documents.training.log import PublishedSet
from compliance.documents.training.system_description import DescribedSystem
from compliance.verdict import About, Fault, Severity
from suite.rounds.published_training import PublishedTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSystem:
    """One system: its sets, and its description."""

    document_name: ClassVar[str] = "a system"

    folder: Path
    """`results/<system>`."""
    sets: Sequence[PublishedSet]
    described: DescribedSystem
    folders_without_logs: Sequence[Path]
    """Folders in it without logs."""
    others: Sequence[Path]
    """Descriptions of the organisation's other systems."""
    round: PublishedTraining

    def build_fault(
        self,
        found: str,
        required: str,
        file: Path | None = None,
        severity: Severity | None = None,
        *,
        about: About | None = None,
    ) -> Fault:
        """Build a Fault for this system."""
        return Fault(
            file=file or self.folder, found=found, required=required, severity=severity, about=about
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRun:
    """A log whose run begins and ends in the same milliseconds as that of another set's log."""

    log: Path
    other: Path
    within: bool
    """Whether both belong to one organisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOrganisation:
    """All results and documents of one organisation."""

    document_name: ClassVar[str] = "an organisation"

    organisation_folder: Path
    sets: int
    """Number of sets of logs."""
    idle: Sequence[Path]
    """Descriptions without results."""
    repeated: Sequence[RepeatedRun]
    """Runs of the organisation that stand in an earlier set, too."""
    round: PublishedTraining

    def build_fault(
        self,
        found: str,
        required: str,
        file: Path | None = None,
        severity: Severity | None = None,
        *,
        about: About | None = None,
    ) -> Fault:
        """Build a Fault for this organisation."""
        return Fault(
            file=file or self.organisation_folder,
            found=found,
            required=required,
            severity=severity,
            about=about,
        )
