"""Judge submissions of curves to MLPerf Endpoints: a point, a curve, a system, a submission."""

from collections.abc import Iterator
from pathlib import Path

from compliance.documents.endpoints.curve import EndpointsCurve, read_endpoints_curve
from compliance.documents.endpoints.point import EndpointsPoint, read_endpoints_point
from compliance.documents.endpoints.run import read_endpoints_run
from compliance.documents.endpoints.submission import EndpointsSubmission, EndpointsSubmissions
from compliance.judges.empty_path import describe_empty_target
from compliance.judges.endpoints import judge_endpoints_run
from compliance.judges.recorder import ResultRecorder
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.recognition.endpoints_files import RESULTS_FOLDER
from compliance.recognition.endpoints_tree import find_submission_folder, list_curve_folders
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_endpoints_summary,
    find_judgeable_parts,
)
from compliance.recognition.tree_path import is_folder
from compliance.rules import judge_document
from compliance.verdict import Finding, ResultKind
from suite.rounds.endpoints_curve import EndpointsRound


class EndpointsCurveJudge:
    """Judges paths by a round of MLPerf Endpoints."""

    def __init__(self, round: EndpointsRound) -> None:
        self.round = round
        self.recorder = ResultRecorder()

    def judge_target(self, target: RecognisedPath) -> Iterator[Finding]:
        """Apply the rules for this kind of path."""
        path = target.path
        match target.kind:
            case PathKind.ENDPOINTS_SUBMISSION | PathKind.ENDPOINTS_CURVE:
                yield from self.judge_submission(path)
            case PathKind.TREES:
                yield from self.judge_shared_runs(path)
            case PathKind.ENDPOINTS_POINT:
                root = find_submission_folder(path.parent)
                yield from self.judge_point(read_endpoints_point(path, root, self.round))
            case PathKind.ENDPOINTS_RUN if summary := find_endpoints_summary(path):
                run = read_endpoints_run(path, summary, tolerates_failures=True)
                yield from self.recorder.record_result(
                    ResultKind.RUN,
                    path,
                    0,
                    judge_endpoints_run(run, self.apply_rules),
                    run.evidence,
                )
            case _:
                source = SourceFile(path)
                source.add_parse_error(ParseErrorKind.UNREADABLE, *describe_empty_target(target))
                yield from self.apply_rules(source)

    def apply_rules(self, document: object) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge_document(document, self.round.name)

    def judge_submission(self, path: Path) -> Iterator[Finding]:
        """Judge the curves in a folder and, of a submission's folder, what they share."""
        found = self.read_submission(path)
        for curve in found.curves:
            yield from self.judge_curve(curve)
        if is_folder(path / RESULTS_FOLDER):
            yield from self.apply_rules(found)

    def read_submission(self, path: Path) -> EndpointsSubmission:
        """Read the curves in a folder."""
        curves = [
            read_endpoints_curve(each, find_submission_folder(each), self.round)
            for each in list_curve_folders(path)
        ]
        return EndpointsSubmission(root=path, curves=curves)

    def judge_shared_runs(self, path: Path) -> Iterator[Finding]:
        """Judge what several submissions in a folder share, which were judged one by one."""
        homes = [each for each in find_judgeable_parts(path) if is_folder(each / RESULTS_FOLDER)]
        submissions = [self.read_submission(each) for each in homes]
        yield from self.apply_rules(EndpointsSubmissions(root=path, submissions=submissions))

    def judge_curve(self, curve: EndpointsCurve) -> Iterator[Finding]:
        """Judge a curve and its points."""
        for point in curve.points:
            yield from self.judge_point(point)
        yield from self.recorder.record_result(
            ResultKind.CURVE, curve.folder, len(curve.points), self.judge_curve_documents(curve)
        )

    def judge_curve_documents(self, curve: EndpointsCurve) -> Iterator[Finding]:
        """Judge the power of a curve's system, and the curve as a whole."""
        yield from self.apply_rules(curve.power.source)
        yield from self.apply_rules(curve)

    def judge_point(self, point: EndpointsPoint) -> Iterator[Finding]:
        """Judge a point."""
        yield from self.recorder.record_result(
            ResultKind.POINT, point.folder, 0, self.judge_point_documents(point), point.run.evidence
        )

    def judge_point_documents(self, point: EndpointsPoint) -> Iterator[Finding]:
        """Judge the run, the accuracy and the documents of a point."""
        yield from judge_endpoints_run(point.run, self.apply_rules)
        for source in (point.disclosure_source, point.system_source):
            yield from self.apply_rules(source)
        if point.accuracy is not None:
            yield from self.apply_rules(point.accuracy.source)
            yield from self.apply_rules(point.accuracy)
        yield from self.apply_rules(point)
