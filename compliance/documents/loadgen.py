"""What all documents that were read from a folder of LoadGen's files have in common."""

from dataclasses import dataclass
from typing import ClassVar

from compliance.documents.base import FolderDocument, LogDocument
from compliance.documents.submitted_runs import RunMark, SubmittedRun, TimeShape
from compliance.logs.loadgen.summary import SummaryValues
from compliance.logs.loadgen.summary_keys import SUMMARY_LATENCY_KEYS
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


def identify_loadgen_run(run: EntryRun[R], organisation: str, system: str) -> SubmittedRun:
    """Return what tells a LoadGen run since 1.0 from all others: start and end, to the millisecond,
    and of a performance run its latencies, to the nanosecond.
    """
    marks = []
    begin, end = run.find_value("power_begin"), run.find_value("power_end")
    if isinstance(begin, str) and isinstance(end, str):
        marks.append(RunMark("times", (begin, end)))
    shape = None
    if run.performance:
        found = [run.find_number(key) for key in SUMMARY_LATENCY_KEYS.values()]
        latencies = tuple(each for each in found if each is not None)
        counts = (run.find_value("effective_scenario"), run.find_value("result_query_count"))
        shape = TimeShape(counts=(*map(str, counts), len(latencies)), times=latencies)
        if len(latencies) == len(found) and max(latencies) > 0:
            marks.append(RunMark("latencies", latencies))
    return SubmittedRun(
        file=run.path, organisation=organisation, system=system, marks=marks, shape=shape
    )
