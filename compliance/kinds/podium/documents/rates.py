"""Read the LoadGen runs of a study whose document has rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from compliance.documents.loadgen import LoadGenFolder
from compliance.kinds.podium.documents.conditions import RunConditions, read_study_conditions
from compliance.kinds.podium.documents.inference import read_run_records
from compliance.logs.loadgen import query_times
from compliance.logs.log_index import LogIndex
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.logs.source_file import SourceFile
from compliance.recognition.tree_path import (
    is_file,
)
from suite.files.layout import (
    DETAIL_LOG,
    QUERY_RECORD_FILE,
    RUN_RECORD,
    SYSTEM_RECORD,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.records import ServedRun, find_system_folder
from suite.rounds import Round
from suite.studies.documents import STUDY_FILE
from suite.studies.precision import PrecisionRow


class StudyFileHeader(msgspec.Struct, frozen=True):
    """Fields of every study."""

    kind: str = ""


STUDY_HEADER_DECODER: Final = msgspec.json.Decoder(StudyFileHeader)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRun(LoadGenFolder[MllogRecord]):
    """One LoadGen run of a study of rates."""

    table_row: PrecisionRow
    """The run's row in the table."""
    record: ServedRun | None
    conditions: RunConditions | None
    """The conditions of the run; None if it has no telemetry beside it."""


def read_study_kind(folder: Path) -> str:
    """Return the kind that a study states; empty if it cannot be read."""
    try:
        return read_untrusted_file(folder / STUDY_FILE, STUDY_HEADER_DECODER.decode).kind
    except UnreadableError:
        return ""


def read_rate_run(
    table_row: PrecisionRow, folder: Path, round: Round, sources: list[SourceFile]
) -> RateRun:
    """Read one run."""
    detail, record, times = (
        SourceFile(folder / name) for name in (DETAIL_LOG, RUN_RECORD, QUERY_RECORD_FILE)
    )
    index = LogIndex(mllog_lines.read_mllog_records(detail))
    system = SourceFile(find_system_folder(folder) / SYSTEM_RECORD)
    sources += [detail, record]
    if all(each.path != system.path for each in sources):
        sources.append(system)
    queries = None
    if is_file(folder / QUERY_RECORD_FILE):
        sources.append(times)
        queries = query_times.read_query_times(times)
    return RateRun(
        table_row=table_row,
        folder=folder,
        record=read_run_records(record, system),
        index=index,
        conditions=read_study_conditions(folder, queries, round, sources),
    )
