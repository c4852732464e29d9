"""List files that belong to no result (notes, backups, runs under other names), so that the judge
can report them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from compliance.recognition.path_kind import find_results_trees
from compliance.recognition.tree_path import (
    DIVISION_FOLDERS,
    PERFORMANCE_RUN_PATTERN,
    TRAINING_LOG_PATTERN,
    TRAINING_TELEMETRY_PATTERN,
    has_division_folders,
    is_folder,
    iterate_performance_runs,
    iterate_subfolders,
    list_training_logs,
)
from suite.files.foreign_names import is_foreign_name
from suite.files.layout import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    ARRIVAL_RECORD_FILE,
    DETAIL_LOG,
    GAP_RECORD_FILE,
    GROUPED_RUN_FOLDERS,
    LOGPROB_FILE,
    MANIFEST_FILE,
    PARTIAL_SUFFIX,
    QUERY_RECORD_FILE,
    REFERENCE_LOGPROB_FILE,
    ROOM_RECORD_FILE,
    RUN_RECORD,
    START_RECORD_FILE,
    SUMMARY_LOG,
    SYSTEM_RECORD,
    TELEMETRY_FILE,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
    fold_name,
)
from suite.measurement.mlperf_power.session import (
    ANALYZER_LOG,
    POWER_FOLDER,
    RANGING_FOLDER,
    SESSION_FILES,
)
from suite.workload import Mode

LOADGEN_RUN_FILES: Final = frozenset({SUMMARY_LOG, DETAIL_LOG, ACCURACY_LOG, RUN_RECORD})
MEASURED_RUN_FILES: Final = frozenset(
    {
        QUERY_RECORD_FILE,
        TOKEN_RECORD_FILE,
        USAGE_RECORD_FILE,
        START_RECORD_FILE,
        ARRIVAL_RECORD_FILE,
        GAP_RECORD_FILE,
        ROOM_RECORD_FILE,
        TELEMETRY_FILE,
        ANALYZER_LOG,
    }
)
"""What a performance run has besides them."""
SCORED_RUN_FILES: Final = frozenset({ACCURACY_TEXT, LOGPROB_FILE, REFERENCE_LOGPROB_FILE})
"""What an accuracy run has besides them."""


def find_unknown_paths(folder: Path, known: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield unknown entries of a folder, sorted; nothing if it cannot be read."""
    try:
        yield from sorted(path for path in folder.iterdir() if not known(path))
    except OSError:
        return


def is_unfinished_path(path: Path) -> bool:
    """Return whether a file is unfinished, which other rules report."""
    return path.name.endswith(PARTIAL_SUFFIX)


def find_unexpected_run_files(folder: Path, mode: Mode) -> Iterator[Path]:
    """Yield everything except run files in the folder of a LoadGen run."""
    names = LOADGEN_RUN_FILES
    names |= SCORED_RUN_FILES if mode is Mode.ACCURACY else MEASURED_RUN_FILES
    if mode is Mode.PERFORMANCE and folder.parent.name not in GROUPED_RUN_FOLDERS:  # of a study
        names |= {SYSTEM_RECORD}
    yield from find_unknown_paths(folder, lambda path: path.name in names and not is_folder(path))


def find_unexpected_entry_files(folder: Path) -> Iterator[Path]:
    """Yield everything except runs in the folders of an inference entry."""
    yield from find_unknown_paths(
        folder,
        lambda path: (
            is_unfinished_path(path)
            or (path.name in [*Mode] and is_folder(path))
            or (path.name == SYSTEM_RECORD and not is_folder(path))
        ),
    )
    performance = folder / Mode.PERFORMANCE
    measured = set()
    if any((run / ANALYZER_LOG).is_file() for run in iterate_performance_runs(folder)):
        measured = {POWER_FOLDER, RANGING_FOLDER}
    yield from find_unknown_paths(
        performance,
        lambda path: (
            is_unfinished_path(path)
            or (
                (PERFORMANCE_RUN_PATTERN.fullmatch(path.name) is not None or path.name in measured)
                and is_folder(path)
            )
        ),
    )
    for name in sorted(measured):
        yield from find_unknown_paths(
            performance / name,
            lambda path: f"{path.parent.name}/{path.name}" in SESSION_FILES and not is_folder(path),
        )


def find_unexpected_set_files(folder: Path) -> Iterator[Path]:
    """Yield the files in a run set's folder that are neither logs nor telemetry; scenarios may
    share the folder.
    """
    yield from find_unknown_paths(
        folder,
        lambda path: (
            is_unfinished_path(path)
            or is_folder(path)
            or any(
                name.fullmatch(path.name)
                for name in (TRAINING_LOG_PATTERN, TRAINING_TELEMETRY_PATTERN)
            )
        ),
    )


def find_misplaced_files(organisation_folder: Path) -> Iterator[Path]:
    """Yield files in an organisation's folders where only folders belong, and files among the
    systems that are not descriptions.
    """
    systems = list(iterate_subfolders(organisation_folder / "results"))
    benchmarks = [
        benchmark
        for system in systems
        for benchmark in iterate_subfolders(system)
        if not any(list_training_logs(benchmark))
    ]
    for folder in (organisation_folder, organisation_folder / "results", *systems, *benchmarks):
        yield from find_unknown_paths(
            folder, lambda path: is_folder(path) and not path.name.startswith(".")
        )
    yield from find_unknown_paths(
        organisation_folder / "systems", lambda path: path.suffix == ".json" and not is_folder(path)
    )


def find_misplaced_folders(tree: Path, organisation_folders: Sequence[Path]) -> Iterator[Path]:
    """Yield folders of a results folder with a misspelt division name or misplaced results, and
    folders in its divisions that are not an organisation's.
    """
    if not has_division_folders(tree):
        return
    for folder in iterate_subfolders(tree):
        if folder.name in DIVISION_FOLDERS:
            yield from (
                path for path in iterate_subfolders(folder) if path not in organisation_folders
            )
        elif fold_name(folder.name) in DIVISION_FOLDERS or any(find_results_trees(folder)):
            yield folder


def find_symlinks_below(root: Path) -> Iterator[Path]:
    """Yield the links below a folder, sorted, without following them."""
    for folder, names, files in os.walk(root):
        names.sort()
        yield from (
            Path(folder, name)
            for name in sorted([*names, *files])
            if os.path.islink(f"{folder}/{name}")  # noqa: PTH114 - Path.is_symlink may raise
        )


def find_unread_files(folder: Path, read: Iterable[Path], truths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of a bundle that were not read while judging it and are not in a truth
    folder.
    """
    known, open_folders = {folder / MANIFEST_FILE, *read}, set(truths)
    for path in sorted(path for path in folder.rglob("*") if not is_folder(path)):
        if path not in known and path.parent not in open_folders:
            yield path


def has_no_file(folder: Path) -> bool:
    """Return whether there is no file below a folder but what file managers leave."""
    return not any(
        name for _, _, names in os.walk(folder) for name in names if not is_foreign_name(name)
    )
