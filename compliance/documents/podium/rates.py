"""Read studies of rates: speed-only runs and peak searches; `study.json` with its LoadGen runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import msgspec

from compliance.documents.headline import group_records_by_key
from compliance.documents.podium.conditions import RunConditions, read_study_conditions
from compliance.documents.podium.inference import RUN_RECORD_DECODER, RUN_RECORD_FIELDS
from compliance.documents.podium.training import is_finite_number
from compliance.logs.loadgen import query_times, token_times
from compliance.logs.loadgen.query_times import QueryTimes
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.logs.source_file import SourceFile, read_json_document
from compliance.recognition.tree_path import (
    is_file,
    list_performance_runs,
    list_subfolders,
    list_tree_organisations,
)
from compliance.verdict import Fault
from suite.files.layout import (
    DETAIL_LOG,
    PARTIAL_SUFFIX,
    QUERY_RECORD_FILE,
    RUN_RECORD,
    TOKEN_RECORD_FILE,
    is_inside_folder,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.records import RunRecord
from suite.rounds import Round
from suite.studies.documents import STUDY_FILE
from suite.studies.precision import PrecisionRow
from suite.studies.rates import (
    PEAK_KIND,
    RATE_ATTEMPT_FILE,
    RUN_STAMP_FIELDS,
    SPEED_KIND,
    PeakStudy,
    RateAttempt,
    RateAttemptRecord,
    SpeedRow,
    SpeedStudy,
    StudyStamps,
    compute_token_latencies,
)

D = TypeVar("D", PeakStudy, SpeedStudy)
PEAK_DECODER: Final = msgspec.json.Decoder(PeakStudy)
SPEED_DECODER: Final = msgspec.json.Decoder(SpeedStudy)
TRIAL_RECORD_DECODER: Final = msgspec.json.Decoder(RateAttemptRecord)
AnyRateRow: TypeAlias = SpeedRow | RateAttempt | PrecisionRow
RATE_DOCUMENT_FIELDS: Final[Mapping[Any, frozenset[str]]] = {
    kind: frozenset(each.name for each in fields(kind))
    for kind in (PeakStudy, SpeedStudy, RateAttemptRecord)
}


class StudyFileHeader(msgspec.Struct, frozen=True):
    """Fields of every study."""

    kind: str = ""


STUDY_HEADER_DECODER: Final = msgspec.json.Decoder(StudyFileHeader)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRun:
    """One LoadGen run of a study of rates."""

    table_row: AnyRateRow
    """The run's row in the table."""
    folder: Path
    record: RunRecord | None
    trial: RateAttemptRecord | None
    """The trial of a search; None for speed alone."""
    index: Mapping[str, Sequence[MllogRecord]]
    """Key in the detail log -> its records."""
    latencies_ns: Any
    """The queries in order of issue, as an array; None without the record of queries."""
    token_latencies_ns: tuple[Any, Any] | None
    """The same of first and of further tokens; None without the record of as many answers."""
    conditions: RunConditions | None
    """The conditions of the run; None if it has no telemetry beside it."""

    def find_value(self, key: str) -> Any:
        """Return the first value of a key in the detail log; None if there is none."""
        return self.index[key][0].value if key in self.index else None

    def find_number(self, key: str) -> float | None:
        """Return a detail-log value as a finite number, or None."""
        value = self.find_value(key)
        return float(value) if is_finite_number(value) else None

    def build_fault(
        self, found: str, required: str, file: str = DETAIL_LOG, key: str = ""
    ) -> Fault:
        """Build a Fault for this run, at the line of a key."""
        return Fault(
            file=self.folder / file,
            line=self.index[key][0].line if key in self.index else None,
            found=found,
            required=required,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateStudy(Generic[D]):
    """A study of rates with its runs."""

    folder: Path
    study: D
    runs: Sequence[RateRun]
    folders: Sequence[str]
    """Folders with the record of a trial, or of a performance run of these weights on this system,
    relative to the study's.
    """
    round: Round

    def build_fault(self, found: str, required: str) -> Fault:
        """Build a Fault for the table."""
        return Fault(file=self.folder / STUDY_FILE, found=found, required=required)


class PeakFile(RateStudy[PeakStudy]):
    """A peak search with its runs."""

    document_name: ClassVar[str] = "a study"


class SpeedFile(RateStudy[SpeedStudy]):
    """A speed-only study with its runs."""

    document_name: ClassVar[str] = "a study"


AnyRates: TypeAlias = PeakFile | SpeedFile


def read_study_kind(folder: Path) -> str:
    """Return the kind that a study states; empty if it cannot be read."""
    try:
        return read_untrusted_file(folder / STUDY_FILE, STUDY_HEADER_DECODER.decode).kind
    except UnreadableError:
        return ""


def read_rate_study(folder: Path, round: Round, sources: list[SourceFile]) -> AnyRates | None:
    """Read a study of rates; None if its table cannot be read. Files that were read are appended to
    `sources`.
    """
    table = SourceFile(folder / STUDY_FILE)
    sources.append(table)
    if read_study_kind(folder) == PEAK_KIND:
        peak = read_json_document(table, PEAK_DECODER, RATE_DOCUMENT_FIELDS[PeakStudy])
        return (
            None
            if peak is None
            else PeakFile(
                folder=folder,
                study=peak,
                runs=read_rate_runs(folder, peak.trials, round, sources),
                folders=list_trial_folders(folder),
                round=round,
            )
        )
    speed = read_json_document(table, SPEED_DECODER, RATE_DOCUMENT_FIELDS[SpeedStudy])
    if speed is None:
        return None
    served = list_matching_runs(folder, speed.stamps)
    return SpeedFile(
        folder=folder,
        study=speed,
        runs=read_rate_runs(folder, speed.rows, round, sources),
        folders=served,
        round=round,
    )


def list_trial_folders(folder: Path) -> tuple[str, ...]:
    """Return the folders of a study that contain a trial, except unfinished ones."""
    below = [each for system in list_subfolders(folder) for each in list_subfolders(system)]
    return tuple(
        each.relative_to(folder).as_posix()
        for each in below
        if is_file(each / RATE_ATTEMPT_FILE) and not each.name.endswith(PARTIAL_SUFFIX)
    )


def list_matching_runs(folder: Path, stamps: StudyStamps) -> tuple[str, ...]:
    """Return the performance runs in a study's folder with its system and weights."""
    scenarios = (
        each
        for home in list_tree_organisations(folder)
        for system in list_subfolders(home / "results")
        for bench in list_subfolders(system)
        for each in list_subfolders(bench)
    )
    runs = (run for scenario in scenarios for run in list_performance_runs(scenario))
    return tuple(run.relative_to(folder).as_posix() for run in runs if has_same_stamps(run, stamps))


def has_same_stamps(run: Path, stamps: StudyStamps) -> bool:
    """Return whether a run's record has these stamps; False for an unreadable one."""
    try:
        record = read_untrusted_file(run / RUN_RECORD, RUN_RECORD_DECODER.decode)
    except UnreadableError:
        return False
    return all(getattr(record, name) == getattr(stamps, name) for name in RUN_STAMP_FIELDS)


def read_rate_runs(
    folder: Path,
    rows: Sequence[SpeedRow | RateAttempt],
    round: Round,
    sources: list[SourceFile],
) -> tuple[RateRun, ...]:
    """Read the runs that a table names."""
    return tuple(
        read_rate_run(row, folder / row.folder, round, sources)
        for row in rows
        if row.folder and is_inside_folder(row.folder)
    )


def read_rate_run(
    table_row: AnyRateRow, folder: Path, round: Round, sources: list[SourceFile]
) -> RateRun:
    """Read one run."""
    detail, record, trial, times = (
        SourceFile(folder / name)
        for name in (DETAIL_LOG, RUN_RECORD, RATE_ATTEMPT_FILE, QUERY_RECORD_FILE)
    )
    index = group_records_by_key(list(mllog_lines.read_mllog_records(detail)))
    searched = isinstance(table_row, RateAttempt)
    sources += [detail, record, *([trial] if searched else [])]
    queries = None
    if is_file(folder / QUERY_RECORD_FILE):
        sources.append(times)
        queries = query_times.read_query_times(times)
    return RateRun(
        table_row=table_row,
        folder=folder,
        record=read_json_document(record, RUN_RECORD_DECODER, RUN_RECORD_FIELDS),
        trial=read_json_document(
            trial, TRIAL_RECORD_DECODER, RATE_DOCUMENT_FIELDS[RateAttemptRecord]
        )
        if searched
        else None,
        index=index,
        latencies_ns=queries.done_ns - queries.issued_ns if queries is not None else None,
        token_latencies_ns=read_token_latencies(folder, queries, sources),
        conditions=read_study_conditions(folder, queries, round, sources),
    )


def read_token_latencies(
    folder: Path, queries: QueryTimes | None, sources: list[SourceFile]
) -> tuple[Any, Any] | None:
    """Read the time to the first token and per further one of each query's answer; None without the
    record, or if it has not as many answers as there are queries.
    """
    if queries is None or not is_file(folder / TOKEN_RECORD_FILE):
        return None
    source = SourceFile(folder / TOKEN_RECORD_FILE)
    sources.append(source)
    found = token_times.read_token_times(source)
    if found is None or len(found) != len(queries):
        return None
    return compute_token_latencies(queries.issued_ns, found.first_ns, found.last_ns, found.tokens)


def is_rate_study(folder: Path) -> bool:
    """Return whether a study is a study of rates."""
    return read_study_kind(folder) in (PEAK_KIND, SPEED_KIND)
