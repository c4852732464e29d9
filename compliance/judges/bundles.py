"""Judge a bundle: its bytes against its manifest, and the results folder in it."""

from collections.abc import Iterator
from pathlib import Path

from compliance.bundle import manifest, trailer
from compliance.bundle.archive import unpack_bundle
from compliance.documents import unjudged_files
from compliance.documents.podium.bundle import Bundle
from compliance.documents.podium.submission import Submission
from compliance.judges.podium import PodiumJudge
from compliance.recognition.tree_path import is_folder
from compliance.verdict import Finding
from suite.errors import JudgedError


def judge_bundle(judge: PodiumJudge, path: Path, inside: Path) -> Iterator[Finding]:
    """Judge a bundle: unpack it if necessary, compare it with its manifest, judge the tree
    inside.
    """
    folder, problem = path, None
    if not is_folder(path):
        folder = inside
        try:
            unpack_bundle(path, inside)
            problem = trailer.find_seal_problem(path)
        except (JudgedError, OSError) as error:
            problem = str(error)
    submissions: list[Submission] = []
    if problem is None:
        yield from judge.judge_tree(folder, submissions, sealed=True)
    bundle_manifest = None if problem else manifest.read_unpacked_manifest_or_none(folder)
    unread_files = () if problem else tuple(find_unread_bundle_files(judge, folder, submissions))
    bundle_path = folder if problem is None else path
    ledgers = tuple(book for book in judge.library.ledgers.values() if book.root == folder)
    yield from judge.apply_rules(
        Bundle(
            folder=bundle_path,
            problem=problem,
            manifest=bundle_manifest,
            submissions=submissions,
            unread_files=unread_files,
            ledgers=ledgers,
            round=judge.round,
        )
    )


def find_unread_bundle_files(
    judge: PodiumJudge, folder: Path, submissions: list[Submission]
) -> Iterator[Path]:
    """Yield the files of a bundle that were not read while judging it."""
    entries = [entry for submission in submissions for entry in submission.entries]
    sources = (source.path for entry in entries for run in entry.runs for source in run.sources)
    workloads = {*judge.round.benchmarks, *(entry.workload for entry in entries if entry.workload)}
    truths = (
        submission.organisation_folder / "truth" / name
        for submission in submissions
        for name in workloads
    )
    yield from unjudged_files.find_unread_files(
        folder, [*judge.library.iterate_read_files(), *sources], truths
    )
