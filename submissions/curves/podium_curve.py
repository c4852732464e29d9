"""Curves that podium traced, as records beside those of MLPerf Endpoints: with them the same
tables, figures and comparisons are made.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.results.curves import WHOLE_RUN, ScoredCurve
from compliance.results.errors import ErrorIndex, index_errors, sort_rules
from compliance.verdict import Finding
from submissions import compliance_check
from submissions.curves.curve import display_folder, has_curves, has_only_curves, read_path_curves
from suite.files.layout import locate_absolutely
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.measurement.intervals import Interval
from suite.result import Machine, ScoredPoint
from suite.served_identity import drop_unstated
from suite.studies.concurrency_curve import CURVE_KIND, CURVE_NOTE, find_row_region
from suite.studies.documents import STUDY_FILE
from suite.studies.kind import StudiedRow
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.own_prompts import TASK_SETTINGS

PODIUM_RULES: Final = "podium curve"
"""Stands for the round of a curve of podium's, which is comparable with none of MLPerf's."""
CPU_DEVICE: Final = "cpu"
INTERVAL_FIGURES: Final = ("system_tps", "tps_per_user", "ttft_p90_ms")


class StudyKindHeader(msgspec.Struct, frozen=True):
    """What is read of a study of any kind."""

    kind: str = ""


STUDY_KIND_DECODER: Final = msgspec.json.Decoder(StudyKindHeader)


def is_podium_curve(path: Path) -> bool:
    """Return whether a path is the folder of a curve that podium traced."""
    if recognise_path(path).kind is not PathKind.STUDY:
        return False
    try:
        return read_untrusted_file(path / STUDY_FILE, STUDY_KIND_DECODER.decode).kind == CURVE_KIND
    except UnreadableError:
        return False


def has_comparable_curves(path: Path) -> bool:
    """Return whether a path is, or contains, a curve of either kind."""
    return is_podium_curve(path) or has_curves(path)


def has_only_comparable_curves(path: Path) -> bool:
    """Return whether a path has curves of either kind, and no other results."""
    return is_podium_curve(path) or has_only_curves(path)


def read_comparable_curves(path: Path) -> list[ScoredCurve]:
    """Read and judge the curves of either kind in a path."""
    if is_podium_curve(path):
        return [read_podium_curve(path, compliance_check.judge_path(path), path)]
    return read_path_curves(path)


def read_podium_curve(folder: Path, found: Sequence[Finding], given: Path) -> ScoredCurve:
    """Read a curve that podium traced; JudgedError if its table cannot be read. `found` are the
    judge's findings about it, `given` is the path that the user wrote.
    """
    study = read_measured_study(folder)
    home = locate_absolutely(folder)
    errors = index_errors(found)
    points = tuple(build_traced_point(home, each, errors, given) for each in study.rows)
    of_points = {rule for point in points for rule in point.failed_rules}
    own = tuple(rule for rule in sort_rules(errors.get(home, ())) if rule not in of_points)
    subject, answer = study.subject, study.answer
    return ScoredCurve(
        path=display_folder(folder, given),
        org="",
        submission="",
        system=subject.system,
        model=subject.workload,
        dataset=subject.prompts or subject.profile,
        data_set=select_asked_prompts(study) or subject.profile,
        division="",
        round=PODIUM_RULES,
        cohort="",
        precision=drop_unstated(subject.precision),
        served=subject.served,
        tokenizer=study.tokenizer,
        c_min=answer.c_min,
        c_max=answer.c_max,
        regions=answer.regions,
        machine=Machine(accelerators=0 if subject.device == CPU_DEVICE else None),
        kw=None,
        points=points,
        point_count=len(points),
        peak=max((each.system_tps for each in points if each.system_tps), default=None),
        offline_tps=None,
        compliant=not own and all(each.compliant for each in points),
        failed_rules=own,
        runs=min((len(each.runs) for each in study.points), default=1),
        origin=CURVE_NOTE,
    )


def select_asked_prompts(study: MeasuredStudy) -> str:
    """Return what tells the user's own prompts and how they were asked, wherever their file is;
    empty of a workload's.
    """
    if not study.subject.prompts or study.first is None:
        return ""
    settings = study.first.record.settings
    return ", ".join(f"{name} {settings.get(name)}" for name in TASK_SETTINGS)


def build_traced_point(home: Path, row: StudiedRow, errors: ErrorIndex, given: Path) -> ScoredPoint:
    """Build the record of a point, with the rules that are broken in the folders of its runs."""
    folder, figures = home / row.studied.folder, row.figures
    broken = [error for run in row.studied.runs for error in errors.get(home / run.folder, ())]
    failed = sort_rules(broken)
    return ScoredPoint(
        path=display_folder(folder, given),
        concurrency=row.point.concurrency,
        region=find_row_region(row),
        offline=None,
        system_tps=figures.system_tps,
        tps_per_user=figures.tps_per_user,
        ttft_p90_ms=figures.ttft_p90_ms,
        tps_per_kw=None,
        basis=WHOLE_RUN,
        declared_basis=WHOLE_RUN,
        compliant=not failed,
        failed_rules=failed,
        intervals=dict(iterate_figure_intervals(row)),
    )


def iterate_figure_intervals(row: StudiedRow) -> Iterator[tuple[str, Interval]]:
    """Yield the intervals that several runs of a point give."""
    for name in INTERVAL_FIGURES:
        if ends := row.studied.find_interval(name):
            yield name, Interval(low=ends[0], high=ends[1])
