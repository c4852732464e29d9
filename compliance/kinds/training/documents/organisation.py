"""An organisation's submission to a published training round: its sets, its system descriptions,
and the remaining files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.documents.base import Document, FolderDocument
from compliance.kinds.training.documents.log import PublishedSet
from compliance.kinds.training.documents.system_description import DescribedSystem
from compliance.kinds.training.round import PublishedTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSystem(FolderDocument):
    """One system: its sets below `results/<system>`, and its description."""

    document_name: ClassVar[str] = "a system"

    sets: Sequence[PublishedSet]
    described: DescribedSystem
    folders_without_logs: Sequence[Path]
    """Folders in it without logs."""
    others: Sequence[Path]
    """Descriptions of the organisation's other systems."""
    round: PublishedTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRun:
    """A log whose run begins and ends in the same milliseconds as that of another set's log."""

    log: Path
    other: Path
    within: bool
    """Whether both belong to one organisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOrganisation(Document):
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

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.organisation_folder
