"""Read a curve of podium's: its table with the LoadGen run of each point."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.podium.inference import LoadGenRun, read_loadgen_run
from compliance.documents.podium.rates import read_study_kind
from compliance.logs.loadgen.start_times import read_start_times
from compliance.logs.source_file import SourceFile, read_json_document
from compliance.recognition.tree_path import is_file, list_subfolders
from compliance.verdict import Fault
from suite.files.layout import (
    PARTIAL_SUFFIX,
    RUN_RECORD,
    START_RECORD_FILE,
    is_inside_folder,
)
from suite.loadgen.scenario import Scenario
from suite.rounds import Round
from suite.studies.concurrency_curve import CURVE_KIND, ConcurrencyCurve, CurvePoint
from suite.studies.documents import STUDY_FILE
from suite.workload import Mode

CURVE_DOCUMENT_DECODER: Final = msgspec.json.Decoder(ConcurrencyCurve)
CURVE_DOCUMENT_FIELDS: Final = frozenset(ConcurrencyCurve.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRun:
    """A point with its run."""

    table_row: CurvePoint
    run: LoadGenRun
    starts_ns: Any
    """When each prompt began, as an array in the order of the run's tokens; None without the
    record.
    """

    def build_fault(self, found: str, required: str, file: str = RUN_RECORD) -> Fault:
        """Build a Fault for this run."""
        return Fault(file=self.run.folder / file, found=found, required=required)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFile:
    """A curve with its runs."""

    document_name: ClassVar[str] = "a curve of podium's"

    folder: Path
    study: ConcurrencyCurve
    runs: Sequence[CurveRun]
    folders: Sequence[str]
    """Folders with the record of a run, relative to the study's."""
    round: Round

    def build_fault(self, found: str, required: str) -> Fault:
        """Build a Fault for the table."""
        return Fault(file=self.folder / STUDY_FILE, found=found, required=required)


def is_curve_study(folder: Path) -> bool:
    """Return whether a study is a curve."""
    return read_study_kind(folder) == CURVE_KIND


def read_curve_file(folder: Path, round: Round, sources: list[SourceFile]) -> CurveFile | None:
    """Read a curve; None if its table cannot be read. Files that were read are appended to
    `sources`.
    """
    table = SourceFile(folder / STUDY_FILE)
    sources.append(table)
    study = read_json_document(table, CURVE_DOCUMENT_DECODER, CURVE_DOCUMENT_FIELDS)
    if study is None:
        return None
    runs = tuple(
        read_curve_run(point, folder / point.folder, round, sources)
        for point in study.points
        if point.folder and is_inside_folder(point.folder)
    )
    return CurveFile(
        folder=folder, study=study, runs=runs, folders=list_curve_run_folders(folder), round=round
    )


def read_curve_run(
    table_row: CurvePoint, folder: Path, round: Round, sources: list[SourceFile]
) -> CurveRun:
    """Read the run of a point."""
    run = read_loadgen_run(folder, Mode.PERFORMANCE, Scenario.OFFLINE, round)
    sources += run.sources
    starts = None
    if is_file(folder / START_RECORD_FILE):
        source = SourceFile(folder / START_RECORD_FILE)
        sources.append(source)
        starts = read_start_times(source)
    return CurveRun(table_row=table_row, run=run, starts_ns=starts)


def list_curve_run_folders(folder: Path) -> tuple[str, ...]:
    """Return the folders of a study that contain a run, except unfinished ones."""
    below = [each for system in list_subfolders(folder) for each in list_subfolders(system)]
    return tuple(
        each.relative_to(folder).as_posix()
        for each in below
        if is_file(each / RUN_RECORD) and not each.name.endswith(PARTIAL_SUFFIX)
    )
