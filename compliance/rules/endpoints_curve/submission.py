"""Check what the curves of a submission share: its folders, and that no run is used twice."""

import hashlib
from collections.abc import Iterator
from typing import Final

from compliance.documents.endpoints.point import EndpointsPoint
from compliance.documents.endpoints.result_summary import ResultSummary
from compliance.documents.endpoints.submission import EndpointsSubmission
from compliance.recognition.tree_path import is_file, is_folder, list_subfolders
from compliance.rules import rule
from compliance.verdict import About, Fault

MAX_COMPARED_BYTES: Final = 1 << 22
COMPARED_SERIES: Final = ("latency", "ttft", "tpot", "output_sequence_lengths")


@rule("endpoints.tree", EndpointsSubmission, About.RULES, doubt="whether others can repeat it")
def tree(submission: EndpointsSubmission) -> Iterator[Fault]:
    """A submission has docs, and below src at least one implementation, each with a README.md.

    Source: Endpoints rules, 2.2.1 and 8.1.
    Advice: add the missing folders and files.
    """
    if not is_folder(submission.root / "docs"):
        yield submission.build_fault("no docs", "a folder docs")
    implementations = list(list_subfolders(submission.root / "src"))
    if not implementations:
        yield submission.build_fault("no src/<implementation>", "at least one")
    for each in implementations:
        if not is_file(each / "README.md"):
            yield submission.build_fault("no README.md", "how to reproduce a point", file=each)


@rule("endpoints.links", EndpointsSubmission, About.RULES, doubt="what was submitted")
def links(submission: EndpointsSubmission) -> Iterator[Fault]:
    """A submission has no links: what they lead to is not submitted with it.

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
    for point in (each for curve in submission.curves for each in curve.points):
        first = [
            seen.setdefault(key, point)
            for key in (hash_summary(point), collect_totals(point.summary))
            if key is not None
        ]
        other = next((each for each in first if each is not point), None)
        if other is not None:
            yield point.build_fault(
                f"the result of {other.folder.relative_to(submission.root)}",
                "a result of its own",
                file=point.run.summary_source.path,
            )


def hash_summary(point: EndpointsPoint) -> str | None:
    """Return the digest of a point's summary; None if it cannot be read."""
    if point.summary is None:
        return None
    try:
        with point.run.summary_source.path.open("rb") as stream:
            return hashlib.sha256(stream.read(MAX_COMPARED_BYTES)).hexdigest()
    except OSError:
        return None


def collect_totals(summary: ResultSummary | None) -> tuple[object, ...] | None:
    """Return the totals of a run, which no two runs share; None if it lacks one."""
    if summary is None:
        return None
    found = (summary.duration_ns, *(getattr(summary, name).total for name in COMPARED_SERIES))
    return None if None in found else found
