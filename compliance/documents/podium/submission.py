"""An organisation's part of a results tree, and a bundle: the subjects of rules about more than one entry."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compliance.bundle.manifest import Manifest
from compliance.documents.podium.inference import InferenceEntry
from compliance.documents.podium.system_description import SystemFile
from compliance.documents.podium.training import TrainingSet
from compliance.verdict import Fault, Severity
from suite.rounds import Round

if TYPE_CHECKING:
    from compliance.documents.podium.ledger import LedgerFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Everything of one organisation in one division, or of one of its systems."""

    home: Path
    sets: Sequence[TrainingSet]
    entries: Sequence[InferenceEntry]
    systems: Sequence[SystemFile]
    strays: Sequence[Path]
    """Folders below results/ that are no benchmark or scenario of the round."""
    loose: Sequence[Path]
    """Files where only folders belong."""
    links: Sequence[Path]
    """Links in place of files and folders."""
    earlier: "Sequence[Submission]" = ()
    """What other organisations of the same tree filed, as far as it was read before this."""
    round: Round

    def fault(self, found: str, required: str, file: Path | None = None, severity: Severity | None = None) -> Fault:
        """Say what does not hold here."""
        return Fault(file=file or self.home, found=found, required=required, severity=severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A sealed package, unpacked."""

    folder: Path
    problem: str | None
    """Why it cannot be unpacked; None if it was."""
    manifest: Manifest | None
    submissions: Sequence[Submission]
    strays: Sequence[Path]
    """Files that were not read for judging it."""
    ledgers: "Sequence[LedgerFile]" = ()
    round: Round

    def fault(self, found: str, required: str, file: Path | None = None) -> Fault:
        """Build a Fault in this bundle."""
        return Fault(file=file or self.folder, found=found, required=required)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A result of a workload that is not installed here."""

    path: Path
    workload: str
    round: Round
