"""Lists files that belong to no result (notes, backups, runs under other names), so that the judge
can report them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from compliance.recognition.path_kind import results_trees
from compliance.recognition.tree_path import (
    DIVISIONS,
    RUN,
    TRAINING_LOG,
    TRAINING_TELEMETRY,
    folders,
    is_folder,
    is_tree,
    performance_runs,
    training_logs,
)
from suite.files.layout import (
    ACCURACY,
    ACCURACY_TEXT,
    DETAIL,
    MANIFEST,
    PARTIAL,
    QUERIES,
    RUN_RECORD,
    SUMMARY,
    TELEMETRY,
    fold,
)
from suite.measurement.mlperf_power.session import FILES, POWER, RANGING, SPL
from suite.workload import Mode

RUN_FILES: Final = frozenset({SUMMARY, DETAIL, ACCURACY, RUN_RECORD})


def others(folder: Path, known: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield unknown entries of a folder, sorted; nothing if it cannot be read."""
    try:
        yield from sorted(path for path in folder.iterdir() if not known(path))
    except OSError:
        return


def unfinished(path: Path) -> bool:
    """Return whether a file is unfinished, which other rules report."""
    return path.name.endswith(PARTIAL)


def in_run(folder: Path, mode: Mode) -> Iterator[Path]:
    """Yield whatever is not one of the run files in the folder of a LoadGen run."""
    names = RUN_FILES | ({ACCURACY_TEXT} if mode is Mode.ACCURACY else {QUERIES, TELEMETRY, SPL})
    yield from others(folder, lambda path: path.name in names and not is_folder(path))


def in_entry(folder: Path) -> Iterator[Path]:
    """Yield whatever is not a run in the folders of an inference entry."""
    yield from others(
        folder, lambda path: unfinished(path) or (path.name in [*Mode] and is_folder(path))
    )
    performance = folder / Mode.PERFORMANCE
    measured = (
        {POWER, RANGING}
        if any((run / SPL).is_file() for run in performance_runs(folder))
        else set()
    )
    yield from others(
        performance,
        lambda path: (
            unfinished(path)
            or ((RUN.fullmatch(path.name) is not None or path.name in measured) and is_folder(path))
        ),
    )
    for name in sorted(measured):
        yield from others(
            performance / name,
            lambda path: f"{path.parent.name}/{path.name}" in FILES and not is_folder(path),
        )


def in_set(folder: Path) -> Iterator[Path]:
    """Yield the files in a training set's folder that are neither logs nor telemetry; scenarios may
    share the folder.
    """
    yield from others(
        folder,
        lambda path: (
            unfinished(path)
            or is_folder(path)
            or any(name.fullmatch(path.name) for name in (TRAINING_LOG, TRAINING_TELEMETRY))
        ),
    )


def in_home(home: Path) -> Iterator[Path]:
    """Yield files in an organisation's folders where only folders belong, and files among the
    systems that are not descriptions.
    """
    systems = list(folders(home / "results"))
    benchmarks = [
        benchmark
        for system in systems
        for benchmark in folders(system)
        if not any(training_logs(benchmark))
    ]
    for folder in (home, home / "results", *systems, *benchmarks):
        yield from others(folder, lambda path: is_folder(path) and not path.name.startswith("."))
    yield from others(home / "systems", lambda path: path.suffix == ".json" and not is_folder(path))


def beside(tree: Path, homes: Sequence[Path]) -> Iterator[Path]:
    """Yield folders of a results folder with a misspelt division name or misplaced results, and
    folders in its divisions that are not an organisation's.
    """
    for folder in folders(tree) if is_tree(tree) else ():
        if folder.name in DIVISIONS:
            yield from (path for path in folders(folder) if path not in homes)
        elif fold(folder.name) in DIVISIONS or any(results_trees(folder)):
            yield folder


def links_in(home: Path) -> Iterator[Path]:
    """Yield the links below a folder, sorted, without following them."""
    for folder, names, files in os.walk(home):
        names.sort()
        yield from (
            path for name in sorted([*names, *files]) if (path := Path(folder, name)).is_symlink()
        )


def in_bundle(folder: Path, read: Iterable[Path], truths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of a bundle that were not read while judging it and lie in no truth
    folder.
    """
    known, open_folders = {folder / MANIFEST, *read}, set(truths)
    for path in sorted(path for path in folder.rglob("*") if not is_folder(path)):
        if path not in known and path.parent not in open_folders:
            yield path
