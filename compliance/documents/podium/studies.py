"""Reads a study of either kind as the documents that rules judge: its table, and the power of its
points.
"""

from pathlib import Path

from compliance.documents.podium.power import PoweredRun, of_idle, of_point
from compliance.documents.podium.rates import AnyRates, is_rates, read_rates
from compliance.documents.podium.study import StudyFile, read_study
from compliance.logs.source_file import SourceFile
from suite.rounds import Round
from suite.studies.documents import STUDY


def read(
    folder: Path, round: Round
) -> tuple[list[SourceFile], list[StudyFile | AnyRates | PoweredRun]]:
    """Return the files that were read, with their flaws, and the documents in them."""
    sources: list[SourceFile] = []
    if is_rates(folder):
        rates = read_rates(folder, round, sources)
        return sources, [rates] if rates else []
    found = read_study(folder, round, sources)
    if found is None:
        return sources, []
    powered = (of_idle(found), *(of_point(point, found.folder / STUDY) for point in found.points))
    return sources, [found, *filter(None, powered)]
