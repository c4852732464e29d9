"""Recognise the kind of a PATH, from its position in a submission tree or from its content."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Final

from compliance.recognition.result_places import list_entry_files, load_result_places
from compliance.recognition.tree_path import (
    DIVISION_FOLDERS,
    TEST_FOLDERS,
    TRAINING_LOG_PATTERN,
    TRAINING_TELEMETRY_PATTERN,
    TreePosition,
    has_division_folders,
    is_file,
    is_folder,
    is_organisation_folder,
    iterate_published_logs,
    iterate_subfolders,
    iterate_tree_organisations,
    locate_in_tree,
    match_organisation_folder,
    match_scenario_folder,
)
from suite.files.layout import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    ARRIVAL_RECORD_FILE,
    CHECKPOINT_RECORD,
    CHECKPOINTS_FOLDER,
    DETAIL_LOG,
    GAP_RECORD_FILE,
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
    locate_absolutely,
)
from suite.history.records import HISTORY_FILE
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE

LOADGEN_FILES: Final = frozenset(
    {
        SUMMARY_LOG,
        DETAIL_LOG,
        ACCURACY_LOG,
        ACCURACY_TEXT,
        RUN_RECORD,
        QUERY_RECORD_FILE,
        TOKEN_RECORD_FILE,
        USAGE_RECORD_FILE,
        ARRIVAL_RECORD_FILE,
        GAP_RECORD_FILE,
        ROOM_RECORD_FILE,
        START_RECORD_FILE,
        LOGPROB_FILE,
        REFERENCE_LOGPROB_FILE,
        TELEMETRY_FILE,
        "mlperf_log_trace.json",
    }
)
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""First bytes of a bundle: the magic number of a zstd frame, RFC 8878, section 3.1.1."""
JSON_LINES_SUFFIX: Final = ".jsonl"
HISTORY_BEGINNING: Final = b'{"added": "'
"""First bytes of a line of a history, whose fields are sorted."""
MODE_FOLDERS: Final = ("accuracy", "performance")
MAX_TREE_SEARCH_DEPTH: Final = 3
"""Depth to which a folder is searched for results trees, as in
`<repository>/rounds/v0.7/closed`.
"""
PLACEHOLDER_FILES: Final = frozenset({".keep", ".gitkeep"})
"""Files that mark a folder as intentionally empty."""


class PathKind(StrEnum):
    """The kinds of PATH."""

    LOG = "training log"
    SET = "run set"
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
    HISTORY = "history of results"
    ENDPOINTS_RUN = "run of the Endpoints client"
    ENDPOINTS_POINT = "point of MLPerf Endpoints"
    ENDPOINTS_CURVE = "curve of MLPerf Endpoints"
    ENDPOINTS_SUBMISSION = "submission to MLPerf Endpoints"
    BUNDLE = "bundle"
    TREES = "folder of results trees"
    DOCUMENT = "JSON document of another kind"
    EMPTY = "empty folder"
    UNKNOWN = "unknown"


KINDS_OF_FOLDERS: Final = frozenset(
    {PathKind.RUN, PathKind.ENTRY, PathKind.SET, PathKind.CHECKPOINT, PathKind.STUDY}
)
"""Kinds of which a given file stands for its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedPath:
    """A recognised PATH."""

    path: Path
    """Absolute path."""
    kind: PathKind
    position: TreePosition | None = None


def recognise_path(
    path: Path,
    match_organisation: Callable[[tuple[str, ...]], Path | None] = match_organisation_folder,
) -> RecognisedPath:
    """Recognise a path; it is UNKNOWN if it cannot be read or recognised. `match_organisation` may
    be a cached `match_organisation_folder`.
    """
    path = locate_absolutely(path)
    folder = is_folder(path)
    for places in load_result_places():
        if part := places.find_part(path, folder):
            return part
    position = locate_in_tree(path, folder, match_organisation)
    if not folder and position is None and (run := find_loose_run(path, folder)):
        return run
    if not folder:
        kind = recognise_file_kind(path, position)
        return RecognisedPath(
            path=path.parent if kind in KINDS_OF_FOLDERS else path,
            kind=kind,
            position=position,
        )
    if position and (filed := find_described_results(path, position)):
        return RecognisedPath(
            path=filed, kind=recognise_kind_in_results(filed, position), position=position
        )
    return RecognisedPath(path=path, kind=recognise_folder_kind(path, position), position=position)


def find_loose_run(path: Path, folder: bool) -> RecognisedPath | None:
    """Recognise a run of another client than LoadGen outside of any tree, and a file in one."""
    return next(
        (run for places in load_result_places() if (run := places.find_loose_run(path, folder))),
        None,
    )


def find_described_results(path: Path, position: TreePosition) -> Path | None:
    """Return the results that a measurements folder describes; None for anything else."""
    parts = position.list_parts_below(path)
    if parts[:1] == ("measurements",):
        return position.organisation_folder.joinpath("results", *parts[1:])
    return None


def recognise_file_kind(path: Path, position: TreePosition | None) -> PathKind:
    """Recognise a file by its position, its name and its first bytes."""
    if position:
        below = position.list_parts_below(path)
    else:
        below = ()
    if below and below[0] in TEST_FOLDERS:
        return PathKind.AUDIT
    if path.name in LOADGEN_FILES or (position and path.name in list_entry_files()):
        return PathKind.RUN
    if path.name == SYSTEM_RECORD and position and position.scenario:
        return PathKind.ENTRY
    if TRAINING_TELEMETRY_PATTERN.fullmatch(path.name):
        return PathKind.SET
    if path.name == STUDY_FILE:
        return PathKind.STUDY
    if path.name == CHECKPOINT_RECORD or CHECKPOINTS_FOLDER in path.parts[-4:-2]:
        return PathKind.CHECKPOINT
    if below[:1] == ("systems",) and len(below) == 2 and path.suffix.casefold() == ".json":
        return PathKind.SYSTEM_FILE
    if below[:1] == ("measurements",):
        return PathKind.MEASUREMENTS
    if path.name.endswith((".tar.zst", ".tar.zst" + PARTIAL_SUFFIX)) or (
        not TRAINING_LOG_PATTERN.fullmatch(path.name) and has_zstd_magic(path)
    ):
        return PathKind.BUNDLE
    if path.name == HISTORY_FILE or has_history_line(path):
        return PathKind.HISTORY
    if path.suffix.casefold() == ".json":
        if path.parent.name == "systems":
            return PathKind.SYSTEM_FILE
        return PathKind.DOCUMENT
    return PathKind.LOG


def has_zstd_magic(path: Path) -> bool:
    """Return whether a file starts like a zstd archive."""
    return begins_with(path, ZSTD_MAGIC)


def has_history_line(path: Path) -> bool:
    """Return whether a file of JSON lines starts like a history."""
    return path.suffix == JSON_LINES_SUFFIX and begins_with(path, HISTORY_BEGINNING)


def begins_with(path: Path, magic: bytes) -> bool:
    """Return whether a file begins with some bytes; nothing begins a file that cannot be read."""
    try:
        with path.open("rb") if is_file(path) else BytesIO() as stream:
            return stream.read(len(magic)) == magic
    except OSError:
        return False


def recognise_folder_kind(path: Path, position: TreePosition | None) -> PathKind:
    """Recognise a folder by its position, or else by its content."""
    if is_file(path / MANIFEST_FILE):
        return PathKind.BUNDLE
    if is_file(path / STUDY_FILE):
        return PathKind.STUDY
    if position:
        return recognise_kind_in_tree(path, position)
    if is_file(path / CHECKPOINT_RECORD):
        return PathKind.CHECKPOINT
    if run := find_loose_run(path, folder=True):
        return run.kind
    if any(find_loose_run(each, folder=True) for each in iterate_subfolders(path)):
        return PathKind.TREES
    if (
        has_division_folders(path)
        or path.name.casefold() in DIVISION_FOLDERS
        or any(iterate_tree_organisations(path))
        or any(find_studies(path))
    ):
        return PathKind.TREE
    return recognise_content_kind(path)


def recognise_content_kind(path: Path) -> PathKind:
    """Recognise a folder outside a tree by its content."""
    if kind := recognise_result_kind(path):
        return kind
    if any(find_judgeable_parts(path)):
        return PathKind.TREES
    if is_empty_folder(path):
        return PathKind.EMPTY
    return PathKind.UNKNOWN


def recognise_result_kind(path: Path) -> PathKind | None:
    """Recognise a folder with results outside a tree by its content; None for others."""
    if has_loadgen_logs(path):
        return PathKind.RUN
    if is_performance_folder(path):
        return PathKind.RUNS
    if any(iterate_published_logs(path)):
        return PathKind.SET
    if is_scenario_folder(path):
        return PathKind.ENTRY
    if is_benchmark_folder(path):
        return PathKind.BENCHMARK
    if any(
        is_benchmark_folder(folder) or any(iterate_published_logs(folder))
        for folder in iterate_subfolders(path)
    ):
        return PathKind.SYSTEM
    return None


def find_judgeable_parts(path: Path) -> Iterator[Path]:
    """Yield the outermost results trees and organisations in a folder; if it has none, the systems
    in the folder or in its `results`.
    """
    trees = list(find_results_trees(path))
    yield from trees or (
        system
        for folder in (path, path / "results")
        for system in iterate_subfolders(folder)
        if recognise_result_kind(system) in (PathKind.SYSTEM, PathKind.BENCHMARK)
    )


def find_results_trees(path: Path, depth: int = MAX_TREE_SEARCH_DEPTH) -> Iterator[Path]:
    """Yield the outermost results trees and organisations in a folder; a folder of a bundle's files
    counts as one.
    """
    if not depth:
        return
    for folder in iterate_subfolders(path):
        if (
            is_file(folder / MANIFEST_FILE)
            or has_division_folders(folder)
            or any(iterate_tree_organisations(folder))
            or is_organisation_folder(folder)
            or any(places.is_judgeable_part(folder) for places in load_result_places())
        ):
            yield folder
        else:
            yield from find_results_trees(folder, depth - 1)


def find_studies(path: Path) -> Iterator[Path]:
    """Yield the studies in a results folder, or in its studies folder."""
    if path.name == STUDIES_FOLDER:
        studies_folder = path
    else:
        studies_folder = path / STUDIES_FOLDER
    yield from (
        folder for folder in iterate_subfolders(studies_folder) if is_file(folder / STUDY_FILE)
    )


def has_loadgen_logs(path: Path) -> bool:
    """Return whether a folder has LoadGen logs."""
    return any(is_file(f"{path}/{name}") for name in (SUMMARY_LOG, DETAIL_LOG))


def is_performance_folder(path: Path) -> bool:
    """Return whether a folder has performance runs, by its name or its content."""
    return path.name.casefold() == MODE_FOLDERS[1] or any(
        folder.name.startswith("run_") and has_loadgen_logs(folder)
        for folder in iterate_subfolders(path)
    )


def is_scenario_folder(path: Path) -> bool:
    """Return whether a folder is a scenario's, with its accuracy and performance parts."""
    return any(folder.name.casefold() in MODE_FOLDERS for folder in iterate_subfolders(path))


def is_benchmark_folder(path: Path) -> bool:
    """Return whether a folder contains scenarios."""
    return any(
        match_scenario_folder(folder.name) and is_scenario_folder(folder)
        for folder in iterate_subfolders(path)
    )


def is_empty_folder(path: Path) -> bool:
    """Return whether a folder is empty; one that cannot be listed is not."""
    try:
        return all(entry.name in PLACEHOLDER_FILES for entry in path.iterdir())
    except OSError:
        return False


def recognise_kind_in_tree(path: Path, position: TreePosition) -> PathKind:
    """Recognise a folder of an organisation by its depth."""
    parts = position.list_parts_below(path)
    if len(parts) > 1 and parts[0] in TEST_FOLDERS:
        return PathKind.AUDIT
    if len(parts) <= 1 or parts[0] in ("systems", "code", "truth"):
        return PathKind.ORGANISATION
    return recognise_kind_in_results(path, position)


def recognise_kind_in_results(path: Path, position: TreePosition) -> PathKind:
    """Recognise a folder of results or measurements."""
    depth = len(position.list_parts_below(path))
    if depth <= 3:
        return (PathKind.ORGANISATION, PathKind.SYSTEM, PathKind.BENCHMARK)[max(depth - 1, 0)]
    if depth == 4:
        return PathKind.ENTRY
    if depth == 5 and path.name.casefold() == MODE_FOLDERS[1] and not has_loadgen_logs(path):
        return PathKind.RUNS
    return PathKind.RUN
