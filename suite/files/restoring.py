"""Brings superseded results back: what is kept under a number, and where its parts belong.

A part is what is replaced as a whole, so that no result is mixed from two: the runs of a mode, a
run set, a compliance test, a study, or any other file.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from suite.errors import RequestError
from suite.files.json_files import write_json
from suite.files.layout import (
    AUDITS_FOLDER,
    PARTIAL_SUFFIX,
    STAGING_FOLDERS,
    STATE_FOLDER,
    SYSTEM_RECORD,
    find_owning_results,
    is_inside_folder,
    sync_to_disk,
)
from suite.files.superseded import SUPERSEDED_FOLDER, move_to_superseded
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE
from suite.terms import Division

RESTORE_JOURNAL: Final = "restore.json"
"""Below `.podium`: the moves under way, which the next `podium restore` completes."""
RUN_MODE_DEPTH: Final = 7
"""Parts of `<division>/<org>/results/<system>/<benchmark>/<Scenario>/<mode>`, and of a compliance
test's folder.
"""
STATE_DEPTH: Final = 3
"""Parts of `.podium/<workload>/<file or folder>`."""
BENCHMARK_DEPTH: Final = 5
"""Parts of `<division>/<org>/results/<system>/<benchmark>`."""
SET_PATTERNS: Final = ("result_*.txt", "telemetry_*.jsonl")
"""Files of a run set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededResult:
    """What is kept under one number."""

    number: int
    folder: Path
    moves: tuple[tuple[Path, Path], ...]
    """Each part of a result: where it is, and where it belongs, relative to the results folder."""

    @property
    def moment(self) -> str:
        """Return when it was moved aside, in local time."""
        return datetime.fromtimestamp(self.folder.stat().st_mtime).strftime("%Y-%m-%d %H:%M")

    @property
    def places(self) -> tuple[str, ...]:
        """Return the results that it holds parts of, each once."""
        names = (name_result(target) for _, target in self.moves)
        return tuple(dict.fromkeys(filter(None, names)))


class RestoreJournal(msgspec.Struct, frozen=True, kw_only=True):
    """Moves under way, with paths relative to the results folder."""

    def __post_init__(self) -> None:
        """Refuse what no command writes: the file is untrusted input."""
        paths = (path for pair in self.moves for path in pair)
        if not all(map(is_inside_folder, (*paths, *self.standing))):
            raise ValueError("it names a path outside its folder")

    moves: tuple[tuple[str, str], ...]
    standing: tuple[str, ...]
    """What is in the place of the parts, to be moved aside."""
    displaced: bool = False
    """It has been moved aside."""


RESTORE_JOURNAL_DECODER: Final = msgspec.json.Decoder(RestoreJournal)


def list_superseded_results(results: Path) -> list[SupersededResult]:
    """Return what is kept below `.podium/superseded`, by number, except where it is only the state
    of an unfinished run. OSError where a folder cannot be read.
    """
    kept = results / STATE_FOLDER / SUPERSEDED_FOLDER
    try:
        folders = sorted(kept.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (
        SupersededResult(
            number=int(folder.name), folder=folder, moves=tuple(iterate_result_moves(folder))
        )
        for folder in folders
        if folder.name.isdecimal() and folder.is_dir()
    )
    return sorted((each for each in found if each.places), key=lambda each: each.number)


def iterate_result_moves(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the parts below a numbered folder, and where they belong; training state only beside
    its run set.
    """
    parts = dict.fromkeys(
        locate_part(folder, path) for path in list_kept_paths(folder) if path.is_file()
    )
    moves = [
        (part, target)
        for part in parts
        if part is not None and (target := locate_target(folder, part)) is not None
    ]
    has_set = any(target.match(SET_PATTERNS[0]) for _, target in moves)
    yield from (
        (part, target) for part, target in moves if has_set or target.parts[0] != STATE_FOLDER
    )


def list_kept_paths(folder: Path) -> list[Path]:
    """Return what is not a folder below a numbered one, sorted. OSError where a folder cannot be
    read, in which `Path.rglob` would find nothing.
    """
    problems: list[OSError] = []
    paths = sorted(
        Path(parent, name)
        for parent, _, names in os.walk(folder, onerror=problems.append)
        for name in names
    )
    if problems:
        raise problems[0]
    return paths


def locate_part(folder: Path, path: Path) -> Path | None:
    """Return the part that a file belongs to; None for an unfinished one."""
    root = find_tree_root(folder, path)
    parts = path.relative_to(root).parts
    if any(part.endswith(PARTIAL_SUFFIX) for part in parts):
        return None
    if parts[0] in tuple(Division) and len(parts) > RUN_MODE_DEPTH:
        return root.joinpath(*parts[:RUN_MODE_DEPTH])
    if parts[0] == STATE_FOLDER:
        return root.joinpath(*parts[:STATE_DEPTH])
    if parts[0] == STUDIES_FOLDER:
        study = root.joinpath(*parts[:2])
        return study if (study / STUDY_FILE).is_file() else None
    return path


def find_tree_root(folder: Path, path: Path) -> Path:
    """Return the folder below which a file lies as in a results folder: a staging folder may have
    been moved aside as a whole.
    """
    for parent in (each for each in path.parents if each.is_relative_to(folder)):
        if parent.name in STAGING_FOLDERS and find_owning_results(parent) != parent:
            return parent
    return folder


def locate_target(folder: Path, part: Path) -> Path | None:
    """Return where a part belongs, relative to the results folder; None for what is kept of other
    numbers and for the state of runs in a staging folder.
    """
    root = find_tree_root(folder, part)
    target = part.relative_to(root)
    if target.parts[0] == STATE_FOLDER and (
        root != folder or len(target.parts) < STATE_DEPTH or target.parts[1] == SUPERSEDED_FOLDER
    ):
        return None
    return target


def name_result(target: Path) -> str:
    """Name the result that a part belongs to; empty for state and for files beside results."""
    parts = target.parts
    if target.name == SYSTEM_RECORD:
        return ""
    if parts[0] in tuple(Division) and len(parts) >= BENCHMARK_DEPTH:
        if parts[2] == AUDITS_FOLDER:
            return PurePosixPath(*parts).as_posix()
        if parts[2] == "results":
            return PurePosixPath(
                *parts[: RUN_MODE_DEPTH if len(parts) >= RUN_MODE_DEPTH else BENCHMARK_DEPTH]
            ).as_posix()
    if parts[0] == STUDIES_FOLDER:
        return PurePosixPath(*parts).as_posix()
    return ""


def restore_superseded_result(results: Path, number: int) -> tuple[str, ...]:
    """Bring back what is kept under a number, and move aside what is in its place; return the
    results that it holds parts of. RequestError if there is none.

    The moves are noted first: if the process is killed, `complete_restoring` completes them.
    """
    found = {each.number: each for each in list_superseded_results(results)}
    if number not in found:
        raise RequestError(
            f"{number}: no superseded result in {results}; podium restore lists what there is"
        )
    kept = found[number]
    journal = RestoreJournal(
        moves=tuple(
            (source.relative_to(results).as_posix(), target.as_posix())
            for source, target in kept.moves
        ),
        standing=tuple(
            path.relative_to(results).as_posix() for path in list_standing_paths(results, kept)
        ),
    )
    write_restore_journal(results, journal)
    complete_restoring(results)
    return kept.places


def list_standing_paths(results: Path, kept: SupersededResult) -> list[Path]:
    """Return what is in the place of the parts, and what belongs to it."""
    paths = [path for _, target in kept.moves for path in iterate_standing_paths(results, target)]
    for source, target in kept.moves:
        if target.name == SYSTEM_RECORD and has_other_content(source, results / target):
            paths += list_entry_parts(results, target.parent)
    return [path for path in dict.fromkeys(paths) if path.exists()]


def has_other_content(source: Path, standing: Path) -> bool:
    """Return whether another file stands in a file's place."""
    return standing.is_file() and standing.read_bytes() != source.read_bytes()


def list_entry_parts(results: Path, entry: Path) -> list[Path]:
    """Return the runs of an entry and its compliance tests: they are of the system whose record is
    in the entry.
    """
    parts = entry.parts
    runs = sorted(path for path in (results / entry).glob("*") if path.is_dir())
    return [*runs, results.joinpath(*parts[:2], AUDITS_FOLDER, *parts[3:])]


def iterate_standing_paths(results: Path, target: Path) -> Iterator[Path]:
    """Yield what has to make room for a part: a whole run set with its state, and with a
    scenario's runs the compliance tests of the present ones.
    """
    parts = target.parts
    if parts[0] == STATE_FOLDER:
        yield from (
            path for path in (results / target).parent.glob("*") if path.name not in STAGING_FOLDERS
        )
        return
    if any(target.match(pattern) for pattern in SET_PATTERNS):
        for pattern in SET_PATTERNS:
            yield from sorted((results / target).parent.glob(f"{pattern}*"))
        return
    yield results / target
    if len(parts) == RUN_MODE_DEPTH and parts[2] == "results":
        yield results.joinpath(*parts[:2], AUDITS_FOLDER, *parts[3 : RUN_MODE_DEPTH - 1])


def write_restore_journal(results: Path, journal: RestoreJournal) -> None:
    """Write the moves under way."""
    write_json(results / STATE_FOLDER / RESTORE_JOURNAL, msgspec.to_builtins(journal))


def complete_restoring(results: Path) -> bool:
    """Make the moves that are noted; return whether there were any. A second call continues where
    the first one was killed.
    """
    path = results / STATE_FOLDER / RESTORE_JOURNAL
    try:
        journal = read_untrusted_file(path, RESTORE_JOURNAL_DECODER.decode)
    except UnreadableError:
        return False
    if not journal.displaced:
        move_to_superseded([results / each for each in journal.standing], results=results)
        journal = msgspec.structs.replace(journal, displaced=True)
        write_restore_journal(results, journal)
    for source, target in journal.moves:
        if (results / source).exists():
            move_part_back(results / source, results / target)
    path.unlink()
    return True


def move_part_back(source: Path, target: Path) -> None:
    """Move a part to its place, and remove the folders that it leaves empty."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    sync_to_disk(target.parent)
    remove_empty_parents(source)


def remove_empty_parents(source: Path) -> None:
    """Remove empty folders above a path, but not the numbered one, whose number is in use."""
    for folder in source.parents:
        if folder.parent.name == SUPERSEDED_FOLDER or any(folder.iterdir()):
            return
        folder.rmdir()
