"""A study: `study.json`, and the LoadGen runs behind its table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import FolderDocument
from compliance.documents.loadgen import LoadGenFolder
from compliance.kinds.podium.documents.conditions import RunConditions, read_study_conditions
from compliance.kinds.podium.documents.measured_study import read_checkpoint_reference
from compliance.logs.loadgen import accuracy_log, query_times, token_times
from compliance.logs.log_index import LogIndex
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.logs.source_file import SourceFile, read_json_document, read_source_text
from compliance.recognition.tree_path import is_file, is_folder
from compliance.verdict import Severity
from suite import registry
from suite.errors import PodiumError
from suite.files.layout import (
    ACCURACY_LOG,
    DETAIL_LOG,
    QUERY_RECORD_FILE,
    SUMMARY_LOG,
    TELEMETRY_FILE,
    TOKEN_RECORD_FILE,
    is_inside_folder,
)
from suite.files.untrusted_files import UnreadableError
from suite.loadgen import power_window
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork
from suite.rounds import Round
from suite.studies.documents import (
    POINT_FILE,
    STUDY_FILE,
    STUDY_TRUTH_FOLDER,
    PointIdentity,
    RateDrift,
    Study,
    StudyRow,
    compute_part_means,
)
from suite.studies.documents import STUDY_ACCURACY_FOLDER as SCORED
from suite.workload import Scores

STUDY_DECODER: Final = msgspec.json.Decoder(Study)
POINT_DECODER: Final = msgspec.json.Decoder(PointIdentity)
STUDY_FIELDS: Final = frozenset(field.name for field in fields(Study))
POINT_FIELDS: Final = frozenset(field.name for field in fields(PointIdentity))
STUDY_SCORER_EXCEPTIONS: Final = (
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
class StudyPoint(LoadGenFolder[MllogRecord]):
    """One LoadGen run of a study."""

    table_row: StudyRow | RateDrift
    """The run's row in the table."""
    point: PointIdentity | None
    latencies_ns: Any
    """The queries in order of issue, as an array; None without a query record."""

    tokens: int | None
    """Tokens of all generated answers; None without their record."""
    no_energy: tuple[str, ...] | None
    """Why a power channel gave no energy, recomputed; None if its readings cannot be read."""
    conditions: RunConditions | None
    """The conditions of the run; None if it has no telemetry beside it."""

    @property
    def parts_ns(self) -> Sequence[float]:
        """Return the mean latencies of ten slices of the run; empty without a query record."""
        return compute_part_means(self.latencies_ns) if self.latencies_ns is not None else ()

    def find_positive_number(self, key: str) -> float | None:
        """Return a detail-log value as a finite number above 0, or None."""
        value = self.find_number(key)
        return value if value is not None and value > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFile(FolderDocument):
    """A study with its runs."""

    document_name: ClassVar[str] = "a study"
    main_file: ClassVar[str] = STUDY_FILE

    study: Study
    points: Sequence[StudyPoint]
    scores: Mapping[str, Scores | str]
    """Folder of an engine and precision -> scores recomputed from its accuracy run, or why there
    are none.
    """
    entries: Sequence[str]
    """Files and folders of the study and of its systems, as paths relative to it; a folder's ends
    with a slash.
    """
    reference: Mapping[str, float] | None
    """Reference accuracy in the record of the study's checkpoint; None if the record is not in the
    results folder.
    """
    round: Round

    @property
    def odd(self) -> Severity | None:
        """Return the severity of findings that are legitimate only for an interrupted sweep, or for
        one from an earlier version; None is an error.
        """
        return Severity.WARNING if self.study.command is None or not self.study.finished else None


def read_study(folder: Path, round: Round, sources: list[SourceFile]) -> StudyFile | None:
    """Read a study; None if its table cannot be read. Files that were read are appended to
    `sources`.
    """
    table = SourceFile(folder / STUDY_FILE)
    sources.append(table)
    study = read_json_document(table, STUDY_DECODER, STUDY_FIELDS)
    if study is None:
        return None
    rows: tuple[StudyRow | RateDrift, ...] = (*study.rows, *study.drift)
    rows_with_folder = [row for row in rows if row.folder and is_inside_folder(row.folder)]
    systems = sorted({Path(row.folder).parts[0] for row in rows_with_folder})
    return StudyFile(
        folder=folder,
        study=study,
        points=tuple(
            read_study_point(row, folder / row.folder, round, sources) for row in rows_with_folder
        ),
        scores={
            system: score_study_answers(
                folder / system / SCORED, folder / STUDY_TRUTH_FOLDER, study.subject, sources
            )
            for system in systems
            if is_folder(folder / system / SCORED)
        },
        entries=tuple(list_study_paths(folder)),
        reference=(
            None
            if study.bare
            else read_checkpoint_reference(folder, f"{study.subject}/{study.weights}")
        ),
        round=round,
    )


def list_study_paths(folder: Path) -> Iterator[str]:
    """Yield the files and folders of a study and of its systems' folders, except hidden ones."""
    for path in sorted(folder.iterdir()):
        below = (
            sorted(path.iterdir()) if is_folder(path) and path.name != STUDY_TRUTH_FOLDER else []
        )
        for each in (path, *below):
            if not path.name.startswith(".") and not each.name.startswith("."):
                yield f"{each.relative_to(folder).as_posix()}{'/' if is_folder(each) else ''}"


def read_study_point(
    table_row: StudyRow | RateDrift, folder: Path, round: Round, sources: list[SourceFile]
) -> StudyPoint:
    """Read one run of a study."""
    detail, record, times, summary = (
        SourceFile(folder / name)
        for name in (DETAIL_LOG, POINT_FILE, QUERY_RECORD_FILE, SUMMARY_LOG)
    )
    index = LogIndex(mllog_lines.read_mllog_records(detail))
    read_source_text(summary)
    sources += [detail, record, summary]
    queries = None
    if is_file(folder / QUERY_RECORD_FILE):
        sources.append(times)
        queries = query_times.read_query_times(times)
    tokens = None
    if is_file(folder / TOKEN_RECORD_FILE):
        sources.append(token_source := SourceFile(folder / TOKEN_RECORD_FILE))
        tokens = token_times.read_token_times(token_source)
    return StudyPoint(
        table_row=table_row,
        folder=folder,
        point=read_json_document(record, POINT_DECODER, POINT_FIELDS),
        index=index,
        latencies_ns=queries.done_ns - queries.issued_ns if queries is not None else None,
        tokens=None if tokens is None else tokens.total,
        no_energy=recompute_no_energy_reasons(folder, index),
        conditions=read_study_conditions(folder, queries, round, sources),
    )


def recompute_no_energy_reasons(
    folder: Path, index: LogIndex[MllogRecord]
) -> tuple[str, ...] | None:
    """Recompute why power channels gave no energy; None if the readings or the run's span cannot be
    read.
    """
    try:
        found = power_readings.read_power_readings(folder / TELEMETRY_FILE)
    except UnreadableError as error:
        return () if error.missing else None
    if not (found.tracks or found.absent):
        return ()
    begin_ns, end_ns = (
        power_window.parse_power_time_ns(index.find_value(key))
        for key in ("power_begin", "power_end")
    )
    return (
        None
        if begin_ns is None or end_ns is None
        else power_readings.build_energy_records(found, begin_ns, end_ns, MeasuredWork(samples=0))[
            1
        ]
    )


def score_study_answers(
    folder: Path, truth: Path, subject: str, sources: list[SourceFile]
) -> Scores | str:
    """Score a study's accuracy run with the workload's scorer; if that fails, return the reason."""
    source = SourceFile(folder / ACCURACY_LOG)
    sources.append(source)
    answers = accuracy_log.index_accuracy_log(source)
    if not is_folder(truth):
        return "no ground truth in the study"
    try:
        return dict(registry.load_scorer(subject)(answers, truth))
    except PodiumError as error:
        return str(error)
    except STUDY_SCORER_EXCEPTIONS as error:
        return f"the scorer cannot read the answers: {type(error).__name__}: {error}"
