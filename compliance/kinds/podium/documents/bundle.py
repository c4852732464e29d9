"""A bundle: everything in a sealed package."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.bundle.manifest import Manifest
from compliance.documents.base import FolderDocument
from compliance.kinds.podium.documents.ledger import LedgerFile
from compliance.kinds.podium.documents.submission import Submission
from suite.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle(FolderDocument):
    """A sealed package, unpacked."""

    document_name: ClassVar[str] = "a bundle"

    problem: str | None
    """Why it cannot be unpacked; None if it was unpacked."""
    manifest: Manifest | None
    submissions: Sequence[Submission]
    unread_files: Sequence[Path]
    """Files that were not read while judging it."""
    ledgers: Sequence[LedgerFile] = ()
    round: Round
