"""What a bundle consists of: its bytes against its manifest, and the results folder in it."""

from collections.abc import Iterator
from pathlib import Path

from compliance.bundle import manifest, trailer
from compliance.bundle.archive import unpack_bundle
from compliance.kinds.podium.documents import unjudged_files
from compliance.kinds.podium.documents.bundle import Bundle
from compliance.kinds.podium.documents.submission import Submission
from compliance.kinds.podium.layout import PodiumLayout
from compliance.recognition.tree_path import is_folder
from compliance.walk import Piece
from suite.errors import JudgedError


def iterate_bundle(layout: PodiumLayout, path: Path, inside: Path) -> Iterator[Piece]:
    """Open a bundle: unpack it if necessary, compare it with its manifest, then the tree
    inside.
    """
    folder, problem = path, None
    if is_folder(path):
        manifest.check_unpacked_format(path, path.name)
    else:
        folder = inside
        try:
            unpack_bundle(path, inside)
            problem = trailer.find_seal_problem(path)
        except (JudgedError, OSError) as error:
            problem = str(error)
    submissions: list[Submission] = []
    if problem is None:
        yield from layout.iterate_tree(folder, submissions, sealed=True)
    bundle_manifest = None if problem else manifest.read_unpacked_manifest_or_none(folder)
    unread_files = () if problem else tuple(find_unread_bundle_files(layout, folder, submissions))
    bundle_path = folder if problem is None else path
    ledgers = tuple(book for book in layout.library.ledgers.values() if book.root == folder)
    yield Bundle(
        folder=bundle_path,
        problem=problem,
        manifest=bundle_manifest,
        submissions=submissions,
        unread_files=unread_files,
        ledgers=ledgers,
        round=layout.round,
    )


def find_unread_bundle_files(
    layout: PodiumLayout, folder: Path, submissions: list[Submission]
) -> Iterator[Path]:
    """Yield the files of a bundle that were not read while judging it."""
    entries = [entry for submission in submissions for entry in submission.entries]
    runs = [run for entry in entries for run in entry.runs]
    sources = (source.path for run in runs for source in (*run.sources, run.system_source))
    workloads = {*layout.round.benchmarks, *(entry.workload for entry in entries if entry.workload)}
    truths = (
        submission.organisation_folder / "truth" / name
        for submission in submissions
        for name in workloads
    )
    yield from unjudged_files.find_unread_files(
        folder, [*layout.library.iterate_read_files(), *sources], truths
    )
