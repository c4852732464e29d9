"""The curves in a path as records, with the reader of their kind of round."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_judgeable_parts,
    recognise_path,
)
from compliance.results.curves import ScoredCurve
from compliance.results.errors import index_errors
from compliance.verdict import Finding
from submissions import compliance_check
from submissions.result_index import find_requested_results
from submissions.round_readers import load_result_reader

CURVE_KINDS: Final = (PathKind.ENDPOINTS_SUBMISSION, PathKind.ENDPOINTS_CURVE)


def has_curves(path: Path) -> bool:
    """Return whether a path is, or contains, a curve of MLPerf Endpoints."""
    return any(list_curve_homes(recognise_path(path)))


def has_only_curves(path: Path) -> bool:
    """Return whether a path has curves, and no other results."""
    return has_curves(path) and not find_requested_results(path)


def read_path_curves(path: Path, found: Sequence[Finding] | None = None) -> list[ScoredCurve]:
    """Read and judge the curves in a path, each once; `found` are the judge's findings about the
    path, if it was judged before. Of a point's path only that point remains.
    """
    target = recognise_path(path)
    curves: list[ScoredCurve] = []
    homes = list_curve_homes(target)
    if found is None and len(homes) > 1:
        found = compliance_check.judge_path(path)  # at once: no two submissions share a run
    for home in homes:
        round_name = compliance_check.resolve_path_round(home)
        read_curves = load_result_reader(round_name, "read_curves")
        findings = compliance_check.judge_path(home) if found is None else found
        curves += read_curves(home, round_name, index_errors(findings))
    return [select_requested_points(each, target, path) for each in curves]


def list_curve_homes(target: RecognisedPath) -> list[Path]:
    """Return the outermost folders with curves in a path: a submission, a part of it, or several;
    the curve of a single point.
    """
    if target.kind in CURVE_KINDS:
        return [target.path]
    if target.kind is PathKind.ENDPOINTS_POINT:
        return [target.path.parent]
    if target.kind is not PathKind.TREES:
        return []
    parts = find_judgeable_parts(target.path)
    return [each for each in parts if recognise_path(each).kind in CURVE_KINDS]


def select_requested_points(curve: ScoredCurve, target: RecognisedPath, given: Path) -> ScoredCurve:
    """Return a curve with its folders as the user would write them, after the path that was given:
    with the point that the path is, or all points for any other path.
    """
    wanted = str(target.path) if target.kind is PathKind.ENDPOINTS_POINT else None
    points = [each for each in curve.points if wanted in (None, each.path)]
    return replace(
        curve,
        path=display_folder(Path(curve.path), given),
        points=tuple(replace(each, path=display_folder(Path(each.path), given)) for each in points),
    )


def display_folder(folder: Path, given: Path) -> str:
    """Return a folder as the user would write it, after the path that was given."""
    if given.is_absolute():
        return str(folder)
    return os.path.relpath(folder)
