"""Read a study of any kind as the documents that rules check: its table, the power of its points,
and the conditions of its runs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from compliance.documents.podium.conditions import RunConditions, build_serving_conditions
from compliance.documents.podium.curve_study import CurveFile, is_curve_study, read_curve_file
from compliance.documents.podium.inference import LoadGenRun
from compliance.documents.podium.power import RunPower, build_point_power, build_study_idle_power
from compliance.documents.podium.precision import (
    PrecisionFile,
    is_precision_study,
    read_precision_file,
)
from compliance.documents.podium.rates import AnyRates, RateRun, is_rate_study, read_rate_study
from compliance.documents.podium.study import StudyFile, StudyPoint, read_study
from compliance.logs.source_file import SourceFile
from suite.rounds import Round
from suite.studies.documents import STUDY_FILE

StudyDocument: TypeAlias = (
    StudyFile | AnyRates | PrecisionFile | CurveFile | LoadGenRun | RunPower | RunConditions
)


def read_study_documents(
    folder: Path, round: Round
) -> tuple[list[SourceFile], list[StudyDocument]]:
    """Return the files that were read, with their parse errors, and the documents in them."""
    sources: list[SourceFile] = []
    if is_rate_study(folder):
        rates = read_rate_study(folder, round, sources)
        return sources, [rates, *select_run_conditions(rates.runs)] if rates else []
    if is_precision_study(folder):
        compared = read_precision_file(folder, round, sources)
        return sources, [compared] if compared else []
    if is_curve_study(folder):
        curve = read_curve_file(folder, round, sources)
        return sources, [*iterate_curve_documents(curve)] if curve else []
    found = read_study(folder, round, sources)
    if found is None:
        return sources, []
    powered = (
        build_study_idle_power(found),
        *(build_point_power(point, found.folder / STUDY_FILE) for point in found.points),
    )
    return sources, [found, *filter(None, powered), *select_run_conditions(found.points)]


def iterate_curve_documents(curve: CurveFile) -> Iterator[StudyDocument]:
    """Yield a curve, then each of its runs, which are judged as a result's are."""
    yield curve
    for point in curve.runs:
        yield point.run
        if (conditions := build_serving_conditions(point.run)) is not None:
            yield conditions


def select_run_conditions(runs: Sequence[StudyPoint | RateRun]) -> list[RunConditions]:
    """Return the conditions of the runs that have telemetry."""
    return [run.conditions for run in runs if run.conditions is not None]
