"""Recognises what a PATH is, from its position in a submission tree or from its content."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Final

from compliance.recognition.tree_path import (
    DIVISIONS,
    TESTS,
    TRAINING_LOG,
    TRAINING_TELEMETRY,
    Place,
    filed_logs,
    folders,
    home_of,
    homes,
    is_file,
    is_folder,
    is_home,
    is_tree,
    locate,
    scenario_of,
)
from suite.files.layout import (
    ACCURACY,
    ACCURACY_TEXT,
    CHECKPOINT_RECORD,
    CHECKPOINTS,
    DETAIL,
    MANIFEST,
    PARTIAL,
    QUERIES,
    RUN_RECORD,
    SUMMARY,
    TELEMETRY,
)
from suite.studies.documents import STUDIES, STUDY

LOADGEN_FILES: Final = frozenset(
    {
        SUMMARY,
        DETAIL,
        ACCURACY,
        ACCURACY_TEXT,
        RUN_RECORD,
        QUERIES,
        TELEMETRY,
        "mlperf_log_trace.json",
    }
)
MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""First bytes of a bundle: the magic number of a zstd frame, RFC 8878, section 3.1.1."""
MODES: Final = ("accuracy", "performance")
TREE_DEPTH: Final = 3
"""Depth to which a folder is searched for results trees, as in
`<repository>/rounds/v0.7/closed`.
"""
KEEPERS: Final = frozenset({".keep", ".gitkeep"})
"""Files that mark a folder as intentionally empty."""


class Kind(StrEnum):
    """The kinds of PATH."""

    LOG = "training log"
    SET = "training set"
    RUN = "LoadGen run"
    RUNS = "performance runs of an entry"
    ENTRY = "inference entry"
    BENCHMARK = "benchmark of a system"
    SYSTEM_FILE = "system description"
    SYSTEM = "system"
    ORGANISATION = "organisation"
    TREE = "results tree"
    MEASUREMENTS = "measurements file"
    AUDIT = "audit folder"
    CHECKPOINT = "record of a checkpoint"
    STUDY = "study"
    BUNDLE = "bundle"
    TREES = "folder of results trees"
    DOCUMENT = "JSON document of another kind"
    EMPTY = "empty folder"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A recognised PATH."""

    path: Path
    """Absolute path."""
    kind: Kind
    place: Place | None = None


def recognise(path: Path, home_at: Callable[[tuple[str, ...]], Path | None] = home_of) -> Target:
    """Recognise a path; it is UNKNOWN if it cannot be read or recognised. `home_at` may be a cached
    `home_of`.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve follows links, and fails on a link loop
    folder = is_folder(path)
    place = locate(path, folder, home_at)
    if not folder:
        kind = kind_of_file(path, place)
        return Target(
            path=path.parent if kind in (Kind.RUN, Kind.SET, Kind.CHECKPOINT, Kind.STUDY) else path,
            kind=kind,
            place=place,
        )
    if place and (filed := filed_under(path, place)):
        return Target(path=filed, kind=kind_in_results(filed, place), place=place)
    return Target(path=path, kind=kind_of_folder(path, place), place=place)


def filed_under(path: Path, place: Place) -> Path | None:
    """Return the results that a measurements folder describes; None for anything else."""
    parts = place.below(path)
    return place.home.joinpath("results", *parts[1:]) if parts[:1] == ("measurements",) else None


def kind_of_file(path: Path, place: Place | None) -> Kind:
    """Recognise a file by its position, its name and its first bytes."""
    below = place.below(path) if place else ()
    if below and below[0] in TESTS:
        return Kind.AUDIT
    if path.name in LOADGEN_FILES:
        return Kind.RUN
    if TRAINING_TELEMETRY.fullmatch(path.name):
        return Kind.SET
    if path.name == STUDY:
        return Kind.STUDY
    if path.name == CHECKPOINT_RECORD or CHECKPOINTS in path.parts[-4:-2]:
        return Kind.CHECKPOINT
    if below[:1] == ("systems",) and len(below) == 2 and path.suffix.casefold() == ".json":
        return Kind.SYSTEM_FILE
    if below[:1] == ("measurements",):
        return Kind.MEASUREMENTS
    if path.name.endswith((".tar.zst", ".tar.zst" + PARTIAL)) or (
        not TRAINING_LOG.fullmatch(path.name) and starts_with_magic(path)
    ):
        return Kind.BUNDLE
    if path.suffix.casefold() == ".json":
        return Kind.SYSTEM_FILE if path.parent.name == "systems" else Kind.DOCUMENT
    return Kind.LOG


def starts_with_magic(path: Path) -> bool:
    """Return whether a file starts like a zstd archive."""
    try:
        with path.open("rb") if is_file(path) else BytesIO() as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def kind_of_folder(path: Path, place: Place | None) -> Kind:
    """Recognise a folder by its position, or else by its content."""
    if is_file(path / MANIFEST):
        return Kind.BUNDLE
    if is_file(path / STUDY):
        return Kind.STUDY
    if place:
        return kind_in_tree(path, place)
    if is_file(path / CHECKPOINT_RECORD):
        return Kind.CHECKPOINT
    if (
        is_tree(path)
        or path.name.casefold() in DIVISIONS
        or any(homes(path))
        or any(studies_in(path))
    ):
        return Kind.TREE
    return kind_of_content(path)


def kind_of_content(path: Path) -> Kind:
    """Recognise a folder outside a tree by its content."""
    if is_run(path):
        return Kind.RUN
    if is_runs(path):
        return Kind.RUNS
    if any(filed_logs(path)):
        return Kind.SET
    if is_entry(path):
        return Kind.ENTRY
    if is_benchmark(path):
        return Kind.BENCHMARK
    if any(is_benchmark(folder) or any(filed_logs(folder)) for folder in folders(path)):
        return Kind.SYSTEM
    if any(results_trees(path)):
        return Kind.TREES
    return Kind.EMPTY if is_empty(path) else Kind.UNKNOWN


def results_trees(path: Path, depth: int = TREE_DEPTH) -> Iterator[Path]:
    """Yield the outermost results trees and organisations in a folder; a folder of a bundle's files
    counts as one.
    """
    for folder in folders(path) if depth else ():
        if is_file(folder / MANIFEST) or is_tree(folder) or any(homes(folder)) or is_home(folder):
            yield folder
        else:
            yield from results_trees(folder, depth - 1)


def studies_in(path: Path) -> Iterator[Path]:
    """Yield the studies in a results folder, or in its studies folder."""
    where = path if path.name == STUDIES else path / STUDIES
    yield from (folder for folder in folders(where) if is_file(folder / STUDY))


def is_run(path: Path) -> bool:
    """Return whether a folder has LoadGen logs."""
    return any(is_file(f"{path}/{name}") for name in (SUMMARY, DETAIL))


def is_runs(path: Path) -> bool:
    """Return whether a folder has performance runs, by its name or its content."""
    return path.name.casefold() == MODES[1] or any(
        folder.name.startswith("run_") and is_run(folder) for folder in folders(path)
    )


def is_entry(path: Path) -> bool:
    """Return whether a folder is a scenario's, with its accuracy and performance parts."""
    return any(folder.name.casefold() in MODES for folder in folders(path))


def is_benchmark(path: Path) -> bool:
    """Return whether a folder contains scenarios."""
    return any(scenario_of(folder.name) and is_entry(folder) for folder in folders(path))


def is_empty(path: Path) -> bool:
    """Return whether a folder is empty; one that cannot be listed is not."""
    try:
        return all(entry.name in KEEPERS for entry in path.iterdir())
    except OSError:
        return False


def kind_in_tree(path: Path, place: Place) -> Kind:
    """Recognise a folder of an organisation by its depth."""
    parts = place.below(path)
    if len(parts) > 1 and parts[0] in TESTS:
        return Kind.AUDIT
    if len(parts) <= 1 or parts[0] in ("systems", "code", "truth"):
        return Kind.ORGANISATION
    return kind_in_results(path, place)


def kind_in_results(path: Path, place: Place) -> Kind:
    """Recognise a folder of results or measurements."""
    depth = len(place.below(path))
    if depth <= 3:
        return (Kind.ORGANISATION, Kind.SYSTEM, Kind.BENCHMARK)[max(depth - 1, 0)]
    if depth == 4:
        return Kind.ENTRY
    return (
        Kind.RUNS
        if depth == 5 and path.name.casefold() == MODES[1] and not is_run(path)
        else Kind.RUN
    )
