"""Read a study of engines and precisions: `study.json` with the LoadGen runs of each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from compliance.documents.base import FolderDocument
from compliance.kinds.podium.documents.rates import RateRun, read_rate_run, read_study_kind
from compliance.kinds.podium.documents.study import read_checkpoint_reference, score_study_answers
from compliance.logs.source_file import SourceFile, read_json_document
from suite.files.layout import is_inside_folder
from suite.loadgen.scenario import Scenario
from suite.rounds import Round
from suite.studies.documents import STUDY_FILE, STUDY_TRUTH_FOLDER
from suite.studies.precision import PRECISION_KIND, PrecisionRow, PrecisionStudy
from suite.workload import Scores

PRECISION_DECODER: Final = msgspec.json.Decoder(PrecisionStudy)
PRECISION_FIELDS: Final = frozenset(field.name for field in fields(PrecisionStudy))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRuns:
    """The runs behind one row."""

    row: PrecisionRow
    performance: Mapping[Scenario, RateRun]
    accuracy: RateRun
    scores: Scores | str
    """Recomputed from the answers, or why there are none."""

    @property
    def every(self) -> Sequence[RateRun]:
        """Return all runs of the row."""
        return (self.accuracy, *self.performance.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionFile(FolderDocument):
    """A study of engines and precisions with its runs."""

    document_name: ClassVar[str] = "a study"
    main_file: ClassVar[str] = STUDY_FILE

    study: PrecisionStudy
    rows: Sequence[RowRuns]
    """The rows that name their runs."""
    reference: Mapping[str, float] | None
    """Reference accuracy in the record of the study's checkpoint; None if the record is not in the
    results folder.
    """
    round: Round


def is_precision_study(folder: Path) -> bool:
    """Return whether a study is one of engines and precisions."""
    return read_study_kind(folder) == PRECISION_KIND


def read_precision_file(
    folder: Path, round: Round, sources: list[SourceFile]
) -> PrecisionFile | None:
    """Read a study of engines and precisions; None if its table cannot be read. Files read
    are appended to `sources`.
    """
    table = SourceFile(folder / STUDY_FILE)
    sources.append(table)
    study = read_json_document(table, PRECISION_DECODER, PRECISION_FIELDS)
    if study is None:
        return None
    return PrecisionFile(
        folder=folder,
        study=study,
        rows=tuple(
            read_row_runs(folder, row, study.workload, round, sources)
            for row in study.rows
            if has_row_runs(row)
        ),
        reference=read_checkpoint_reference(folder, f"{study.workload}/{study.checkpoint_sha256}"),
        round=round,
    )


def has_row_runs(row: PrecisionRow) -> bool:
    """Return whether a row names all of its runs, inside the study."""
    return all(
        folder and is_inside_folder(folder)
        for folder in (row.accuracy, *row.performance_folders.values())
    )


def read_row_runs(
    folder: Path, row: PrecisionRow, workload: str, round: Round, sources: list[SourceFile]
) -> RowRuns:
    """Read the runs of a row, and score its answers."""
    truth = folder / row.organisation_folder / STUDY_TRUTH_FOLDER / workload
    return RowRuns(
        row=row,
        performance={
            scenario: read_rate_run(row, folder / place, round, sources)
            for scenario, place in row.performance_folders.items()
        },
        accuracy=read_rate_run(row, folder / row.accuracy, round, sources),
        scores=score_study_answers(folder / row.accuracy, truth, workload, sources),
    )
