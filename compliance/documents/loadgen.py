"""What all documents that were read from a folder of LoadGen's files have in common."""

from dataclasses import dataclass
from typing import ClassVar

from compliance.documents.base import FolderDocument, LogDocument
from compliance.logs.loadgen.summary import SummaryValues
from compliance.logs.log_index import LogIndex, R
from compliance.logs.source_file import SourceFile
from compliance.verdict import Fault, Severity
from suite.files.layout import DETAIL_LOG
from suite.workload import Mode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadGenFolder(FolderDocument, LogDocument[R]):
    """The folder of one LoadGen run, with its detail log."""

    main_file: ClassVar[str] = DETAIL_LOG

    index: LogIndex[R]
    """The records of the detail log by key."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EntryRun(LoadGenFolder[R]):
    """One LoadGen run of an entry, with its summary."""

    mode: Mode
    """From the folder's name."""
    summary: SummaryValues
    summary_source: SourceFile

    @property
    def performance(self) -> bool:
        """Return whether the folder is that of a performance run."""
        return self.mode is Mode.PERFORMANCE

    def build_summary_fault(
        self, name: str, found: str, required: str, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for a value of the summary."""
        return self.build_fault(
            found,
            required,
            self.summary.find_line(name),
            file=self.summary_source.path,
            severity=severity,
        )
