"""A bundle: everything in a sealed package."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.bundle.manifest import Manifest
from compliance.documents.podium.ledger import LedgerFile
from compliance.documents.podium.submission import Submission
from compliance.verdict import Fault
from suite.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A sealed package, unpacked."""

    document_name: ClassVar[str] = "a bundle"

    folder: Path
    problem: str | None
    """Why it cannot be unpacked; None if it was unpacked."""
    manifest: Manifest | None
    submissions: Sequence[Submission]
    unread_files: Sequence[Path]
    """Files that were not read while judging it."""
    ledgers: Sequence[LedgerFile] = ()
    round: Round

    def build_fault(self, found: str, required: str, file: Path | None = None) -> Fault:
        """Build a Fault for this bundle."""
        return Fault(file=file or self.folder, found=found, required=required)
