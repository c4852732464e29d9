"""Read a study of any kind as the documents that rules check: its table, and the power of its
points.
"""

from pathlib import Path

from compliance.documents.podium.power import RunPower, build_point_power, build_study_idle_power
from compliance.documents.podium.precision import (
    PrecisionFile,
    is_precision_study,
    read_precision_file,
)
from compliance.documents.podium.rates import AnyRates, is_rate_study, read_rate_study
from compliance.documents.podium.study import StudyFile, read_study
from compliance.logs.source_file import SourceFile
from suite.rounds import Round
from suite.studies.documents import STUDY_FILE


def read_study_documents(
    folder: Path, round: Round
) -> tuple[list[SourceFile], list[StudyFile | AnyRates | PrecisionFile | RunPower]]:
    """Return the files that were read, with their parse errors, and the documents in them."""
    sources: list[SourceFile] = []
    if is_rate_study(folder):
        rates = read_rate_study(folder, round, sources)
        return sources, [rates] if rates else []
    if is_precision_study(folder):
        compared = read_precision_file(folder, round, sources)
        return sources, [compared] if compared else []
    found = read_study(folder, round, sources)
    if found is None:
        return sources, []
    powered = (
        build_study_idle_power(found),
        *(build_point_power(point, found.folder / STUDY_FILE) for point in found.points),
    )
    return sources, [found, *filter(None, powered)]
