"""A curve, for the rules about its closed loop."""

from dataclasses import dataclass
from typing import ClassVar

from compliance.documents.base import FolderDocument
from compliance.kinds.podium.documents.measured_study import JudgedStudy, StudyRun
from suite.studies.concurrency_curve import CURVE_KIND
from suite.studies.documents import STUDY_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFile(FolderDocument):
    """A curve with its runs."""

    document_name: ClassVar[str] = "a curve of podium's"
    main_file: ClassVar[str] = STUDY_FILE

    runs: tuple[StudyRun, ...]
    """Those whose points can be read."""
    is_remote: bool


def find_curve(study: JudgedStudy) -> CurveFile | None:
    """Return a study as a curve; None if it is another one."""
    if study.record.kind != CURVE_KIND:
        return None
    runs = tuple(each for each in study.runs if each.point is not None)
    return CurveFile(folder=study.folder, runs=runs, is_remote=study.is_remote)
