"""Index of a results folder or bundle: one record per run set and inference entry. Results are
found with the judge's code.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from compliance.bundle.archive import unpack_bundle
from compliance.judge import Judge
from compliance.kinds.podium.results import log_values
from compliance.recognition import path_kind, tree_path
from compliance.recognition.first_record import is_training_log
from compliance.recognition.tree_bounds import find_tree_excess
from compliance.results.indexed_result import IndexedResult
from submissions.round_readers import load_result_reader
from suite import registry
from suite.errors import JudgedError, PodiumError, build_unknown_name_error
from suite.events import WORKLOAD
from suite.files.layout import (
    CHECKPOINT_RECORD,
    CHECKPOINTS_FOLDER,
    PARTIAL_SUFFIX,
    compute_file_sha256,
)
from suite.files.scratch import create_temporary_folder
from suite.files.untrusted_files import describe_parse_failure
from suite.loadgen.scenario import Scenario
from suite.studies.documents import STUDY_FILE

BUNDLES_FOLDER: Final = "bundles"
"""Folder of campaign bundles, in the results folder."""
UNPACKED_BUNDLES: Final[dict[str, Path]] = {}
"""SHA-256 of each open bundle -> the folder that it is unpacked in."""


def find_requested_results(path: Path) -> list[IndexedResult]:
    """Return the results at a path: for a training log, in a results tree or not, that run only;
    for another document none; else all below the path.
    """
    target = path_kind.recognise_path(path)
    if target.kind is path_kind.PathKind.LOG:
        if is_training_log(target.path):
            return [build_single_log_result(target)]
        return []
    if target.kind is path_kind.PathKind.DOCUMENT:
        return []
    return find_results(path) or find_loose_results(target)


def build_single_log_result(target: path_kind.RecognisedPath) -> IndexedResult:
    """Return the run of one training log."""
    folder, tree_location = target.path.parent, target.position
    system = ""
    if tree_location:
        system = tree_location.system or ""
    return IndexedResult(
        folder=folder,
        organisation_folder=tree_location.organisation_folder if tree_location else None,
        system=system,
        workload=find_training_workload(folder),
        scenario=None,
        single_log=target.path,
        training_logs=(target.path,),
    )


def find_loose_results(target: path_kind.RecognisedPath) -> list[IndexedResult]:
    """Return the results of a set, an entry, a benchmark or a system outside any results tree."""
    path = target.path
    match target.kind:
        case path_kind.PathKind.SET | path_kind.PathKind.BENCHMARK:
            found = find_benchmark_results(None, "", path)
        case path_kind.PathKind.ENTRY:
            found = find_benchmark_results(None, "", path.parent)
        case path_kind.PathKind.SYSTEM:
            found = (
                result
                for benchmark_folder in tree_path.iterate_subfolders(path)
                for result in find_benchmark_results(None, path.name, benchmark_folder)
            )
        case path_kind.PathKind.ENDPOINTS_RUN:
            found = iter([index_loose_run(path)])
        case path_kind.PathKind.TREES:
            runs = map(path_kind.recognise_path, path_kind.find_results_trees(path))
            return [
                index_loose_run(run.path)
                for run in runs
                if run.kind is path_kind.PathKind.ENDPOINTS_RUN
            ]
        case _:
            return []
    return [result for result in found if result.folder.is_relative_to(path)]


def index_loose_run(folder: Path) -> IndexedResult:
    """Return the result of a run that is in no tree, by the reader of its kind of round."""
    round_name = Judge().resolve_round_name(path_kind.recognise_path(folder))
    result: IndexedResult = load_result_reader(round_name, "index_run")(folder)
    return result


def find_results(path: Path) -> list[IndexedResult]:
    """Return every result below a path, or containing it, sorted, training before inference; none
    outside a results tree, and none of a study of speed alone, whose runs lie in a tree of its own.
    """
    target = path_kind.recognise_path(path)
    if target.position:
        organisation_folders = [target.position.organisation_folder]
    else:
        organisation_folders = list_organisation_folders(target.path)
    found = (
        result
        for organisation_folder in organisation_folders
        if not is_study_tree(organisation_folder)
        for system in tree_path.iterate_subfolders(organisation_folder / "results")
        for result in find_system_results(organisation_folder, system)
    )
    return [
        result
        for result in found
        if result.folder.is_relative_to(target.path) or target.path.is_relative_to(result.folder)
    ]


def is_study_tree(organisation_folder: Path) -> bool:
    """Return whether an organisation's folder is part of a study, `<study>/<division>/<org>`."""
    return (organisation_folder.parent.parent / STUDY_FILE).is_file()


def list_organisation_folders(path: Path) -> list[Path]:
    """Return the organisations' folders of a results tree, or of the results trees in a folder."""
    return list(tree_path.iterate_tree_organisations(path)) or [
        home
        for folder in path_kind.find_results_trees(path)
        for home in list(tree_path.iterate_tree_organisations(folder)) or [folder]
    ]


def find_system_results(organisation_folder: Path, system: Path) -> Iterator[IndexedResult]:
    """Yield the results of one system; a run set may be directly in the system's folder, as in
    three published cases.
    """
    if logs := list_set_logs(system):
        yield IndexedResult(
            folder=system,
            organisation_folder=organisation_folder,
            system=system.name,
            workload=system.name,
            scenario=None,
            training_logs=logs,
        )
    for benchmark_folder in tree_path.iterate_subfolders(system):
        yield from find_benchmark_results(organisation_folder, system.name, benchmark_folder)


def find_benchmark_results(
    organisation_folder: Path | None, system: str, benchmark_folder: Path
) -> Iterator[IndexedResult]:
    """Yield the results of one benchmark: its run set, its scenarios."""
    if logs := list_set_logs(benchmark_folder):
        yield IndexedResult(
            folder=benchmark_folder,
            organisation_folder=organisation_folder,
            system=system,
            workload=find_training_workload(benchmark_folder),
            scenario=None,
            training_logs=logs,
        )
    for folder in tree_path.iterate_subfolders(benchmark_folder):
        scenario = tree_path.match_scenario_folder(folder.name)
        if folder.name.casefold() == tree_path.INTERACTIVE_FOLDER.casefold():
            scenario = Scenario.SERVER
        if scenario and not folder.name.endswith(PARTIAL_SUFFIX):
            yield IndexedResult(
                folder=folder,
                organisation_folder=organisation_folder,
                system=system,
                workload=find_inference_workload(benchmark_folder),
                scenario=scenario,
            )


def list_set_logs(folder: Path) -> tuple[Path, ...]:
    """List the logs of a run set: those with podium's names, or else all that a published set
    may have.
    """
    published = tuple(tree_path.iterate_published_logs(folder))
    return tuple(tree_path.list_training_logs(folder)) or published


def find_training_workload(folder: Path) -> str:
    """Return the workload of a folder's training results; the folder's name if no workload uses it
    for results.
    """
    names = [
        name
        for name, row in registry.load_round().benchmarks.items()
        if row.training_name == folder.name
    ]
    if len(names) > 1:  # two workloads share MLPerf's name: the log identifies the right one
        logs = (
            log_values.read_training_values(log).stamps.get(WORKLOAD)
            for log in tree_path.list_training_logs(folder)
        )
        names = [name for name in logs if name in names] or names
    if names:
        return names[0]
    return folder.name


def find_inference_workload(folder: Path) -> str:
    """Return the workload of a folder's inference results; the folder's name if no workload uses it
    for results.
    """
    return next(
        (
            name
            for name, row in registry.load_round().benchmarks.items()
            if row.inference_name == folder.name
        ),
        folder.name,
    )


def select_named_results(
    found: list[IndexedResult], workloads: Iterable[str] = (), systems: Iterable[str] = ()
) -> list[IndexedResult]:
    """Select the requested results, all if none are named; RequestError names what does not
    exist.
    """
    workloads, systems = tuple(workloads), tuple(systems)
    for kind, names, known in (
        ("workload", workloads, {r.workload for r in found}),
        ("system", systems, {r.system for r in found}),
    ):
        for name in names:
            if name not in known:
                raise build_unknown_name_error(f"{kind} in these results", name, known)
    return [
        r
        for r in found
        if (not workloads or r.workload in workloads) and (not systems or r.system in systems)
    ]


@contextmanager
def open_results(path: Path) -> Iterator[list[IndexedResult]]:
    """Yield the results at a path: a results folder, a part of one, results outside any tree, or a
    bundle; JudgedError if there are none.

    A bundle is unpacked into a temporary folder that lives as long as the context.
    """
    if not path.exists():
        raise JudgedError(f"{path}: no such file or folder")
    check_tree_bounds(path)
    opened: AbstractContextManager[Path] = nullcontext(path)
    if path.is_file() and path_kind.recognise_path(path).kind is path_kind.PathKind.BUNDLE:
        opened = unpack_bundle_once(path)
    with opened as root:
        found = find_requested_results(root)
        if not found:
            raise JudgedError(describe_missing_results(path, root))
        yield found


def has_studies(root: Path) -> bool:
    """Return whether a folder is a study, or holds some."""
    kind = path_kind.recognise_path(root).kind
    return kind is path_kind.PathKind.STUDY or any(path_kind.find_studies(root))


def is_study_path(path: Path) -> bool:
    """Return whether a path is a study's folder or table."""
    return path_kind.recognise_path(path).kind is path_kind.PathKind.STUDY


def locate_study(path: Path) -> Path:
    """Return the folder of a study, given that or its table."""
    return path_kind.recognise_path(path).path


def check_tree_bounds(path: Path) -> None:
    """JudgedError for a path that is beyond a bound of what is looked into."""
    if excess := find_tree_excess(path):
        raise JudgedError(excess.sentence)


def describe_missing_results(path: Path, root: Path) -> str:
    """Describe a path without results, given and unpacked; studies are none, and are told so."""
    if has_studies(root):
        return f"{path}: contains no results, only studies, which podium report draws"
    return f"{path}: contains no results"


@contextmanager
def unpack_bundle_once(bundle: Path) -> Iterator[Path]:
    """Yield the folder of an unpacked bundle. If equal bytes are already unpacked in an enclosing
    context, their folder is reused.
    """
    try:
        sha256 = compute_file_sha256(bundle)
    except OSError as error:
        raise JudgedError(
            f"{bundle.name}: cannot be unpacked: {error.strerror or describe_parse_failure(error)}"
        ) from error
    if sha256 in UNPACKED_BUNDLES:
        yield UNPACKED_BUNDLES[sha256]
        return
    with create_temporary_folder() as root:
        unpack_bundle(bundle, root)
        UNPACKED_BUNDLES[sha256] = root
        try:
            yield root
        finally:
            del UNPACKED_BUNDLES[sha256]


@contextmanager
def keep_bundle_unpacked(bundle: Path) -> Iterator[None]:
    """Unpack a bundle once for everything that reads it within this context. If it cannot be
    unpacked, each reader reports that.
    """
    with ExitStack() as unpacking:
        with suppress(PodiumError):
            unpacking.enter_context(unpack_bundle_once(bundle))
        yield


def locate_checkpoint_record(results: Path, workload: str, sha256: str) -> Path:
    """Path of a checkpoint's record."""
    return results / CHECKPOINTS_FOLDER / workload / sha256 / CHECKPOINT_RECORD
