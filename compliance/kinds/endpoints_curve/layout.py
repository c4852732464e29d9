"""What submissions of curves to MLPerf Endpoints consist of: points, curves, what they share."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from compliance.documents.submitted_runs import SubmittedRun, SubmittedRuns
from compliance.kinds.endpoints.documents.copied_run import EQUAL_MARKS, identify_client_run
from compliance.kinds.endpoints.documents.run import read_endpoints_run
from compliance.kinds.endpoints.layout import build_run_result, iterate_run
from compliance.kinds.endpoints.recognition import RESULTS_FOLDER, find_endpoints_summary
from compliance.kinds.endpoints_curve.documents.curve import EndpointsCurve, read_endpoints_curve
from compliance.kinds.endpoints_curve.documents.point import (
    EndpointsPoint,
    measure_point,
    read_endpoints_point,
)
from compliance.kinds.endpoints_curve.documents.point_records import read_point_records
from compliance.kinds.endpoints_curve.documents.submission import (
    EndpointsSubmission,
    EndpointsSubmissions,
)
from compliance.kinds.endpoints_curve.tree import find_submission_folder, list_curve_folders
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_judgeable_parts,
)
from compliance.recognition.tree_path import is_folder
from compliance.verdict import ResultKind
from compliance.walk import JudgingAids, OpenPath, Piece, ResultPart
from suite import registry
from suite.rounds.endpoints_curve import EndpointsRound


class EndpointsCurveLayout:
    """What a submission to MLPerf Endpoints consists of."""

    def __init__(self, round: EndpointsRound) -> None:
        self.round = round
        self.places: Mapping[PathKind, OpenPath] = {
            PathKind.ENDPOINTS_SUBMISSION: self.open_submission,
            PathKind.ENDPOINTS_CURVE: self.open_submission,
            PathKind.ENDPOINTS_POINT: self.open_point,
            PathKind.ENDPOINTS_RUN: open_run,
            PathKind.TREES: self.open_shared_runs,
        }

    def open_submission(self, target: RecognisedPath) -> Iterator[Piece]:
        """Open the curves in a folder and, of a submission's folder, what they share."""
        found = self.read_submission(target.path)
        for curve in found.curves:
            yield from map(build_point, curve.points)
            yield build_curve(curve)
        if is_folder(target.path / RESULTS_FOLDER):
            yield found

    def open_point(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a point."""
        root = find_submission_folder(target.path.parent)
        return [build_point(read_endpoints_point(target.path, root, self.round))]

    def open_shared_runs(self, target: RecognisedPath) -> Iterator[Piece]:
        """Open what several submissions in a folder share, which were judged one by one."""
        parts = find_judgeable_parts(target.path)
        homes = [each for each in parts if is_folder(each / RESULTS_FOLDER)]
        submissions = [self.read_submission(each) for each in homes]
        yield EndpointsSubmissions(root=target.path, submissions=submissions)
        runs = [run for each in submissions for run in list_submitted_runs(each)]
        yield SubmittedRuns(root=target.path, runs=runs, reported=EQUAL_MARKS)

    def read_submission(self, path: Path) -> EndpointsSubmission:
        """Read the curves in a folder."""
        curves = [
            read_endpoints_curve(each, find_submission_folder(each), self.round)
            for each in list_curve_folders(path)
        ]
        return EndpointsSubmission(root=path, curves=curves)


def list_submitted_runs(submission: EndpointsSubmission) -> list[SubmittedRun]:
    """List the runs of a submission by what tells them from all others."""
    return [
        identify_client_run(point.run, submission.organisation, curve.folder.parent.name)
        for curve in submission.curves
        for point in curve.points
    ]


def open_run(target: RecognisedPath) -> Iterable[Piece] | None:
    """Open a run of the client, such as one that a point was made of."""
    summary = find_endpoints_summary(target.path)
    if summary is None:
        return None
    run = read_endpoints_run(target.path, summary, tolerates_failures=True)
    return [build_run_result(target.path, run)]


def build_curve(curve: EndpointsCurve) -> ResultPart:
    """Build the result of a curve: the power of its system, and the curve as a whole."""
    return ResultPart(
        kind=ResultKind.CURVE,
        path=curve.folder,
        files=len(curve.points),
        contents=[curve.power.source, curve],
    )


def build_point(point: EndpointsPoint) -> ResultPart:
    """Build the result of a point."""
    return ResultPart(
        kind=ResultKind.POINT,
        path=point.folder,
        contents=iterate_point(point),
        evidence=point.run.evidence,
    )


def iterate_point(point: EndpointsPoint) -> Iterator[Piece]:
    """Open the run, the documents, the accuracy and the records of a point."""
    yield from iterate_run(point.run)
    yield point.disclosure_source
    yield point.system_source
    if point.accuracy is not None:
        yield point.accuracy.source
        yield point.accuracy
    yield measure_point(point)
    yield point
    if records := read_point_records(point):
        yield records


def build_curve_layout(round_name: str, _: JudgingAids) -> EndpointsCurveLayout:
    """Build the layout of a round of this kind."""
    return EndpointsCurveLayout(registry.load_endpoints_round(round_name))
