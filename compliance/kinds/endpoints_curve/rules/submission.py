"""Check what the curves of a submission share: its folders, and that no run is used twice."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from compliance.kinds.endpoints.documents.copied_run import (
    identify_client_run,
    read_compared_bytes,
)
from compliance.kinds.endpoints.documents.run import EndpointsRun
from compliance.kinds.endpoints_curve.documents.point import EndpointsPoint
from compliance.kinds.endpoints_curve.documents.submission import (
    EndpointsSubmission,
    EndpointsSubmissions,
)
from compliance.recognition.tree_path import is_file, is_folder, iterate_subfolders
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

TIMED_FIELD: Final = b'"duration_s"'


@rule("endpoints.tree", EndpointsSubmission, About.RULES, doubt="whether others can repeat it")
def tree(submission: EndpointsSubmission) -> Iterator[Fault]:
    """A submission has docs, and below src at least one implementation, each with a README.md.

    Source: Endpoints rules, 2.2.1 and 8.1.
    Advice: add the missing folders and files.
    """
    if not is_folder(submission.root / "docs"):
        yield submission.build_fault("no docs", "a folder docs")
    implementations = list(iterate_subfolders(submission.root / "src"))
    if not implementations:
        yield submission.build_fault("no src/<implementation>", "at least one")
    for each in implementations:
        if not is_file(each / "README.md"):
            yield submission.build_fault("no README.md", "how to reproduce a point", file=each)


@rule("endpoints.links", EndpointsSubmission, About.RULES, doubt="what was submitted")
def links(submission: EndpointsSubmission) -> Iterator[Fault]:
    """A submission has no links, because their targets are not submitted with it.

    Source: Endpoints rules, 8.1 and 9.1: paths within the submission.
    Advice: submit the file itself.
    """
    for path in submission.iterate_links():
        yield submission.build_fault("a link", "the file or folder itself", file=path)


@rule("endpoints.same_summary", EndpointsSubmission, About.SCORE, doubt="whether it was measured")
def same_summary(submission: EndpointsSubmission) -> Iterator[Fault]:
    """No two points have the same result: each is measured on its own.

    Source: Endpoints rules, 9.2: duplicated content.
    Advice: submit the summary of each point's own run.
    """
    seen: dict[object, EndpointsPoint] = {}
    for point in list_points(submission):
        first = [seen.setdefault(key, point) for key in list_run_keys(point.run)]
        other = next((each for each in first if each is not point), None)
        if other is not None:
            yield point.build_fault(
                f"the result of {other.folder.relative_to(submission.root)}",
                "a result of its own",
                file=point.run.summary_source.path,
            )


@rule(
    "endpoints.copied_run",
    EndpointsSubmissions,
    About.IDENTITY,
    doubt="who measured it, and on which system",
)
def copied_run(found: EndpointsSubmissions) -> Iterator[Fault]:
    """No two submissions have the same run. Files do not show which organisation made it, so both
    are named. An organisation that submits its own run again gets a warning.

    Source: Endpoints rules, 9.2: consistency between submissions.
    Advice: submit the runs of the organisation's own system.
    """
    owners = defaultdict[object, list[tuple[EndpointsSubmission, EndpointsPoint]]](list)
    for submission in found.submissions:
        for point in list_points(submission):
            for key in list_run_keys(point.run):
                owners[key].append((submission, point))
    for submission in found.submissions:
        for point in list_points(submission):
            holders = (each for key in list_run_keys(point.run) for each in owners[key])
            yield from report_copied_run(found, submission, point, holders)


def report_copied_run(
    found: EndpointsSubmissions,
    submission: EndpointsSubmission,
    point: EndpointsPoint,
    holders: Iterable[tuple[EndpointsSubmission, EndpointsPoint]],
) -> Iterator[Fault]:
    """Yield the first other submission that has a point's run: of another organisation, or else an
    earlier one of the same.
    """
    others = [each for each in holders if each[0] is not submission]
    foreign = [each for each in others if each[0].organisation != submission.organisation]
    places = [*map(id, found.submissions)]
    earlier = [each for each in others if places.index(id(each[0])) < places.index(id(submission))]
    for _, other in (foreign or earlier)[:1]:
        yield point.build_fault(
            f"the run of {os.path.relpath(other.folder, found.root)}",
            "a run of its own",
            file=point.run.summary_source.path,
            severity=None if foreign else Severity.WARNING,
        )


@rule(
    "endpoints.same_accuracy", EndpointsSubmission, About.QUALITY, doubt="whether it was measured"
)
def same_accuracy(submission: EndpointsSubmission) -> Iterator[Fault]:
    """No two points have the same accuracy results, byte for byte: an error if they state the time
    that the run took, which no two runs share.

    Source: Endpoints rules, 4.3: each accuracy run is of its own point.
    Advice: submit the accuracy results of each point's own run.
    """
    seen: dict[str, EndpointsPoint] = {}
    for point in list_points(submission):
        accuracy = point.accuracy
        if accuracy is None or not accuracy.list_scores():
            continue
        content = read_compared_bytes(accuracy.source.path)
        other = seen.setdefault(hashlib.sha256(content).hexdigest(), point)
        if other is not point:
            yield accuracy.build_fault(
                f"the accuracy results of {other.folder.relative_to(submission.root)}",
                "accuracy results of its own",
                severity=None if TIMED_FIELD in content else Severity.WARNING,
            )


def list_points(submission: EndpointsSubmission) -> Sequence[EndpointsPoint]:
    """List the points of all of a submission's curves."""
    return [point for curve in submission.curves for point in curve.points]


def list_run_keys(run: EndpointsRun) -> Sequence[object]:
    """List what no two runs share: the digest of the summary, and its totals. Empty if the summary
    cannot be read.
    """
    return identify_client_run(run, "", "").marks
