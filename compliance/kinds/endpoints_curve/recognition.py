"""Recognise parts of submissions to MLPerf Endpoints."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.kinds.endpoints.recognition import POINT_FILE
from compliance.kinds.endpoints_curve.tree import (
    has_endpoints_curves,
    is_endpoints_curve,
    is_endpoints_point,
)
from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.recognition.round_evidence import RoundEvidence
from compliance.recognition.tree_path import is_file

CURVE_ROUND: Final = "endpoints-v1.0"
"""The round of submissions of curves: the only one whose points have a point.yaml."""
CURVE_KINDS: Final = (
    PathKind.ENDPOINTS_POINT,
    PathKind.ENDPOINTS_CURVE,
    PathKind.ENDPOINTS_SUBMISSION,
)


def find_endpoints_part(path: Path, folder: bool) -> RecognisedPath | None:
    """Recognise a part of a submission to MLPerf Endpoints, and a file in one; None for others. A
    disclosure in a folder that does not count as a point stands for its curve.
    """
    home = path if folder else path.parent
    for each in (home, home.parent):
        if is_endpoints_point(each) and is_endpoints_curve(each.parent):
            return RecognisedPath(path=each, kind=PathKind.ENDPOINTS_POINT)
        if is_file(each / POINT_FILE):
            return RecognisedPath(path=each.parent, kind=PathKind.ENDPOINTS_CURVE)
    if is_endpoints_curve(home):
        return RecognisedPath(path=home, kind=PathKind.ENDPOINTS_CURVE)
    if has_endpoints_curves(home):
        return RecognisedPath(path=home, kind=PathKind.ENDPOINTS_SUBMISSION)
    return None


@dataclass(frozen=True, slots=True)
class CurvePlaces:
    """Recognises submissions of curves."""

    rounds: Mapping[PathKind, RoundEvidence]
    summary_files: Sequence[str] = ()
    run_files: Set[str] = frozenset()

    def find_part(self, path: Path, folder: bool) -> RecognisedPath | None:
        """Recognise a part of a submission, and a file in one."""
        return find_endpoints_part(path, folder)

    def find_loose_run(self, path: Path, folder: bool) -> RecognisedPath | None:
        """Return None: a point is recognised wherever it lies."""
        return None

    def is_judgeable_part(self, folder: Path) -> bool:
        """Return whether a folder is a submission's, its results, or a system with curves."""
        return has_endpoints_curves(folder)


PLACES: Final = CurvePlaces(dict.fromkeys(CURVE_KINDS, RoundEvidence(CURVE_ROUND, "a point.yaml")))
