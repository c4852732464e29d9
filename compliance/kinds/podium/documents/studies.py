"""Read a study of any kind as the documents that rules check: its table, the power of its points,
and the conditions of its runs.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from compliance.kinds.podium.documents.conditions import RunConditions, build_serving_conditions
from compliance.kinds.podium.documents.curve_study import CurveFile, find_curve
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.documents.measured_study import (
    JudgedStudy,
    StudyRun,
    read_judged_study,
)
from compliance.kinds.podium.documents.power import (
    RunPower,
    build_run_power,
    build_study_idle_power,
)
from compliance.kinds.podium.documents.recorded_run import RecordedRun, build_recorded_serving
from compliance.logs.source_file import SourceFile
from compliance.verdict import Finding
from compliance.walk import Part
from suite.rounds import Round
from suite.studies.documents import STUDY_FILE

StudyDocument: TypeAlias = (
    JudgedStudy | CurveFile | LoadGenRun | RunPower | RunConditions | RecordedRun | Part
)
LENGTH_RULES: Final = frozenset(
    f"loadgen.{name}" for name in ("minimums", "valid", "duration", "bound", "early_stopping")
)
"""Rules about how long a run has to be, and what it has to reach, to be a result: the runs of two
sides are compared with one another, and nothing else.
"""


def omit_length_finding(finding: Finding) -> Finding | None:
    """Leave out what only a result needs."""
    return None if finding.rule in LENGTH_RULES else finding


def read_study_documents(
    folder: Path, round: Round
) -> tuple[list[SourceFile], list[StudyDocument]]:
    """Return the files that were read, with their parse errors, and the documents in them."""
    sources: list[SourceFile] = []
    judged = read_judged_study(folder, round, sources)
    return sources, [*iterate_study_documents(judged)] if judged else []


def is_judged_side(study: JudgedStudy, run: StudyRun) -> bool:
    """Return whether a run is of two sides that serve: the round says nothing of how LoadGen times
    optimizer steps, which `ab.steps` checks.
    """
    is_training = run.planned is not None and run.planned.is_training
    compares_sides = study.kind is not None and study.kind.compares_sides
    return study.has_round_row and compares_sides and not is_training


def iterate_study_documents(study: JudgedStudy) -> Iterator[StudyDocument]:
    """Yield a study, then each of its runs: those that keep the round's rules for runs are judged
    as a result's are. One that is kept though it does not count is no result.
    """
    yield study
    powered = (build_study_idle_power(study), *(build_run_power(each.run) for each in study.runs))
    yield from filter(None, powered)
    if (curve := find_curve(study)) is not None:
        yield curve
    for each in study.runs:
        if (recorded := build_recorded_serving(each.run, STUDY_FILE)) is not None:
            yield recorded
        conditions = build_serving_conditions(each.run)
        if study.holds_to_round(each):
            yield each.run
        elif is_judged_side(study, each):
            yield Part(contents=[each.run], revise=omit_length_finding)
        if (
            not study.holds_to_round(each) and conditions is not None
        ):  # a probe is too short to compare its halves
            conditions = None if each.run.telemetry is None else replace(conditions, rates=None)
        if conditions is not None:
            yield conditions
