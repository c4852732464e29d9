"""A study: `study.json`, and the LoadGen runs behind its table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.documents.headline import indexed
from compliance.documents.podium.training import finite
from compliance.logs.loadgen import accuracy_log, query_times
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import Record
from compliance.logs.source_file import SourceFile, read_document, read_text
from compliance.recognition.tree_path import is_file, is_folder
from compliance.verdict import Fault, Severity
from suite import registry
from suite.errors import PodiumError
from suite.files.layout import (
    ACCURACY,
    CHECKPOINT_RECORD,
    CHECKPOINTS,
    DETAIL,
    QUERIES,
    SUMMARY,
    TELEMETRY,
    stays_inside,
)
from suite.files.untrusted_files import UnreadableError, read
from suite.loadgen import power_window
from suite.measurement import power_readings
from suite.measurement.power_readings import Work
from suite.records import CheckpointRecord
from suite.rounds import Round
from suite.studies.documents import ACCURACY as SCORED
from suite.studies.documents import POINT, STUDY, TRUTH, Drift, Point, Row, Study, parts_of
from suite.workload import Scores

STUDY_DECODER: Final = msgspec.json.Decoder(Study)
POINT_DECODER: Final = msgspec.json.Decoder(Point)
CHECKPOINT_DECODER: Final = msgspec.json.Decoder(CheckpointRecord)
STUDY_FIELDS: Final = frozenset(field.name for field in fields(Study))
POINT_FIELDS: Final = frozenset(field.name for field in fields(Point))
DAMAGE: Final = (
    ValueError,
    LookupError,
    OSError,
    ArithmeticError,
    TypeError,
    MemoryError,
    RecursionError,
)
"""Exceptions that a scorer may raise: answers and truth are untrusted bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPoint:
    """One LoadGen run of a study."""

    told: Row | Drift
    """The run's row in the table."""
    folder: Path
    point: Point | None
    index: Mapping[str, Sequence[Record]]
    """Key in the detail log -> its records."""
    latencies_ns: Any
    """Of the queries in order of issue, an array; None without a query record."""

    no_energy: tuple[str, ...] | None
    """Why a power channel gave no energy, recomputed; None if its readings cannot be read."""
    telemetry: bool
    """Whether telemetry lies beside the run."""

    @property
    def parts_ns(self) -> Sequence[float]:
        """Mean latencies of ten slices of the run; empty without a query record."""
        return parts_of(self.latencies_ns) if self.latencies_ns is not None else ()

    def value(self, key: str) -> Any:
        """Return the first value of a key in the detail log; None if there is none."""
        return self.index[key][0].value if key in self.index else None

    def number(self, key: str) -> float | None:
        """Return a detail-log value as a finite number above 0, or None."""
        value = self.value(key)
        return float(value) if finite(value) and value > 0 else None

    def fault(
        self,
        found: str,
        required: str,
        file: str = DETAIL,
        key: str = "",
        severity: Severity | None = None,
    ) -> Fault:
        """Build a Fault for this run, at the line of a key."""
        return Fault(
            file=self.folder / file,
            line=self.index[key][0].line if key in self.index else None,
            found=found,
            required=required,
            severity=severity,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFile:
    """A study with its runs."""

    folder: Path
    study: Study
    points: Sequence[StudyPoint]
    scores: Mapping[str, Scores | str]
    """Folder of an engine and number format -> scores recomputed from its accuracy run, or why
    there are none.
    """
    entries: Sequence[str]
    """Files and folders of the study and of its systems, as paths relative to it; a folder's ends
    with a slash.
    """
    reference: Mapping[str, float] | None
    """Reference accuracy in the record of the study's checkpoint; None where the record is not in
    the results folder.
    """
    round: Round

    @property
    def odd(self) -> Severity | None:
        """Severity of what a sweep leaves only where it was interrupted, or where an earlier
        version wrote it: None is an error.
        """
        return Severity.WARNING if self.study.command is None or not self.study.finished else None

    def fault(self, found: str, required: str, severity: Severity | None = None) -> Fault:
        """Build a Fault for the table."""
        return Fault(file=self.folder / STUDY, found=found, required=required, severity=severity)


def read_study(folder: Path, round: Round, sources: list[SourceFile]) -> StudyFile | None:
    """Read a study; None if its table cannot be read. Files that were read are appended to
    `sources`.
    """
    table = SourceFile(folder / STUDY)
    sources.append(table)
    study = read_document(table, STUDY_DECODER, STUDY_FIELDS)
    if study is None:
        return None
    rows: tuple[Row | Drift, ...] = (*study.rows, *study.drift)
    told = [row for row in rows if row.folder and stays_inside(row.folder)]
    systems = sorted({Path(row.folder).parts[0] for row in told})
    return StudyFile(
        folder=folder,
        study=study,
        points=tuple(read_point(row, folder / row.folder, sources) for row in told),
        scores={
            system: scored(folder, system, study.subject, sources)
            for system in systems
            if is_folder(folder / system / SCORED)
        },
        entries=tuple(entries(folder)),
        reference=reference(folder, study),
        round=round,
    )


def reference(folder: Path, study: Study) -> Mapping[str, float] | None:
    """Read the reference accuracy of a workload's checkpoint from the results folder in which the
    study lies; None if it is not there.
    """
    if study.bare or not stays_inside(place := f"{study.subject}/{study.weights}"):
        return None
    record = folder.absolute().parent.parent / CHECKPOINTS / place / CHECKPOINT_RECORD
    try:
        return read(record, CHECKPOINT_DECODER.decode).reference_accuracy
    except UnreadableError:
        return None


def entries(folder: Path) -> Iterator[str]:
    """Yield what lies in a study and in its systems' folders; nothing hidden."""
    for path in sorted(folder.iterdir()):
        below = sorted(path.iterdir()) if is_folder(path) and path.name != TRUTH else []
        for each in (path, *below):
            if not path.name.startswith(".") and not each.name.startswith("."):
                yield f"{each.relative_to(folder).as_posix()}{'/' if is_folder(each) else ''}"


def read_point(told: Row | Drift, folder: Path, sources: list[SourceFile]) -> StudyPoint:
    """Read one run of a study."""
    detail, record, times, summary = (
        SourceFile(folder / name) for name in (DETAIL, POINT, QUERIES, SUMMARY)
    )
    index = indexed(list(mllog_lines.read(detail)))
    read_text(summary)
    sources += [detail, record, summary]
    queries = None
    if is_file(folder / QUERIES):
        sources.append(times)
        queries = query_times.read(times)
    return StudyPoint(
        told=told,
        folder=folder,
        point=read_document(record, POINT_DECODER, POINT_FIELDS),
        index=index,
        latencies_ns=queries.done_ns - queries.issued_ns if queries is not None else None,
        no_energy=no_energy(folder, index),
        telemetry=is_file(folder / TELEMETRY),
    )


def no_energy(folder: Path, index: Mapping[str, Sequence[Record]]) -> tuple[str, ...] | None:
    """Recompute why power channels gave no energy; None if the readings or the run's span cannot be
    read.
    """
    try:
        found = power_readings.read(folder / TELEMETRY)
    except UnreadableError as error:
        return () if error.missing else None
    if not (found.tracks or found.absent):
        return ()
    begin_ns, end_ns = (
        power_window.utc_ns(index[key][0].value if key in index else None)
        for key in ("power_begin", "power_end")
    )
    return (
        None
        if begin_ns is None or end_ns is None
        else power_readings.records(found, begin_ns, end_ns, Work(samples=0))[1]
    )


def scored(folder: Path, system: str, subject: str, sources: list[SourceFile]) -> Scores | str:
    """Score a study's accuracy run with the workload's scorer; if that fails, return the reason."""
    source = SourceFile(folder / system / SCORED / ACCURACY)
    sources.append(source)
    answers = accuracy_log.read(source)
    if not is_folder(folder / TRUTH):
        return "no ground truth in the study"
    try:
        return dict(registry.scorer(subject)(answers, folder / TRUTH))
    except PodiumError as error:
        return str(error)
    except DAMAGE as error:
        return f"the scorer cannot read the answers: {type(error).__name__}: {error}"
