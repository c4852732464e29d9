"""Judges a bundle: its bytes against its manifest, and the results folder in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from compliance.bundle import manifest, trailer
from compliance.bundle.archive import unpack
from compliance.documents import unjudged_files
from compliance.documents.podium.submission import Bundle, Submission
from compliance.recognition.tree_path import is_folder
from compliance.verdict import Finding
from suite.errors import JudgedError

if TYPE_CHECKING:
    from compliance.judges.podium import PodiumJudge


def judge_bundle(judge: "PodiumJudge", path: Path, inside: Path) -> Iterator[Finding]:
    """Judge a bundle: unpack it if necessary, compare it with its manifest, judge the tree
    inside.
    """
    folder, problem = path, None
    if not is_folder(path):
        folder = inside
        try:
            unpack(path, inside)
            problem = trailer.problem(path)
        except (JudgedError, OSError) as error:
            problem = str(error)
    submissions: list[Submission] = []
    if problem is None:
        yield from judge.tree(folder, submissions, sealed=True)
    told = None if problem else manifest.read_or_none(folder)
    strays = () if problem else tuple(unread(judge, folder, submissions))
    whole = folder if problem is None else path
    books = tuple(book for book in judge.library.ledgers.values() if book.root == folder)
    yield from judge.apply(
        Bundle(
            folder=whole,
            problem=problem,
            manifest=told,
            submissions=submissions,
            strays=strays,
            ledgers=books,
            round=judge.round,
        )
    )


def unread(judge: "PodiumJudge", folder: Path, submissions: list[Submission]) -> Iterator[Path]:
    """Yield the files of a bundle that were not read while judging it."""
    entries = [entry for submission in submissions for entry in submission.entries]
    sources = (source.path for entry in entries for run in entry.runs for source in run.sources)
    workloads = {*judge.round.benchmarks, *(entry.workload for entry in entries if entry.workload)}
    truths = (submission.home / "truth" / name for submission in submissions for name in workloads)
    yield from unjudged_files.in_bundle(folder, [*judge.library.read(), *sources], truths)
